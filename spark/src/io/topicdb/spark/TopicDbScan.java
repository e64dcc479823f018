package io.topicdb.spark;

import io.topicdb.spark.place.Place;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/** A batch read of a query, on the driver. Immutable: it plans tasks when Spark asks for them. */
final class TopicDbScan implements Scan, Batch {
  private final Query query;
  private final Predicate[] pushed;

  TopicDbScan(Query query, Predicate[] pushed) {
    this.query = query;
    this.pushed = pushed;
  }

  @Override
  public StructType readSchema() {
    return query.columns();
  }

  /** Says in EXPLAIN what is read. */
  @Override
  public String description() {
    var selection = query.selection();
    String filters =
        selection.filters() == null ? "every topic" : String.join(", ", selection.filters());
    String predicates =
        Arrays.stream(pushed).map(Predicate::toString).collect(Collectors.joining(", "));
    return TopicDbProvider.NAME + " " + query.options().path()
        + ", filters [" + filters + "]"
        + ", timestamps [" + shown(selection.start()) + ".." + shown(selection.end()) + "]"
        + ", columns [" + String.join(", ", query.columns().fieldNames()) + "]"
        + ", pushed [" + predicates + "]"
        + (query.limit() == Query.NO_LIMIT ? "" : ", limit " + query.limit());
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    Place place = Place.of(query.options().path());
    return SlicePlan.of(place, query.options(), query.selection()).stream()
        .map(slices -> new SlicesPartition(place, slices))
        .toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SlicesReaderFactory(query);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.all();
  }

  private static String shown(Long time) {
    return time == null ? "" : time.toString();
  }
}
