package io.topicdb.spark;

import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A batch read of a query, on the driver; with options that are right for a stream, too, also that.
 * Immutable: it plans tasks when Spark asks for them.
 */
final class TopicDbScan implements Scan, Batch {
  private final Query query;
  private final Predicate[] pushed;
  private final Map<String, String> given;

  /**
   * @param given the options of the query
   */
  TopicDbScan(Query query, Predicate[] pushed, Map<String, String> given) {
    this.query = query;
    this.pushed = pushed;
    this.given = given;
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
    return TopicDbProvider.NAME + " " + query.options().place()
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
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return StreamScan.streamOf(given, query.columns());
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return SlicePlan.of(query.options(), query.selection());
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
