package io.topicdb.spark;

import io.topicdb.spark.core.Slice;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Pushdown;
import io.topicdb.spark.select.Selection;
import io.topicdb.spark.vectors.Columns;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A batch read of a query, on the driver; with options that are right for a stream, too, also that.
 * It plans tasks when Spark first asks what it reads, and keeps to that moment. If Spark learns
 * while the query runs that a join needs few topics, it plans the tasks anew. Thread-safe.
 */
final class TopicDbScan
    implements Scan, Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final Predicate[] pushed;
  private final Map<String, String> given;
  private Query query;
  private SlicePlan plan; // null: not planned yet

  /**
   * @param given the options of the query
   */
  TopicDbScan(Query query, Predicate[] pushed, Map<String, String> given) {
    this.query = query;
    this.pushed = pushed;
    this.given = given;
  }

  @Override
  public synchronized StructType readSchema() {
    return query.columns();
  }

  /** Says in EXPLAIN what is read. */
  @Override
  public synchronized String description() {
    return described(query.options(), query.selection(), pushed)
        + ", columns [" + String.join(", ", query.columns().fieldNames()) + "]"
        + (query.limit() == Query.NO_LIMIT ? "" : ", limit " + query.limit())
        + (query.top() == null ? "" : ", only the " + query.top());
  }

  /** Returns what EXPLAIN says of what a query reads from a database. */
  static String described(Options options, Selection selection, Predicate[] pushed) {
    String filters =
        selection.filters() == null ? "every topic" : String.join(", ", selection.filters());
    String predicates =
        Arrays.stream(pushed).map(Predicate::toString).collect(Collectors.joining(", "));
    return TopicDbProvider.NAME + " " + options.place()
        + ", filters [" + filters + "]"
        + ", timestamps [" + shown(selection.start()) + ".." + shown(selection.end()) + "]"
        + ", pushed [" + predicates + "]";
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
    return plan().partitions();
  }

  private synchronized SlicePlan plan() {
    if (plan == null) {
      plan =
          SlicePlan.of(query.options(), query.selection(), query.wantsValues(), query.top());
    }
    return plan;
  }

  /** Says about how many rows there are, and how many bytes the columns have that are read. */
  @Override
  public Statistics estimateStatistics() {
    List<Slice> slices = plan().slices().toList();
    long rows = slices.stream().mapToLong(Slice::messages).sum();
    long bytes = slices.stream().mapToLong(Slice::bytes).sum();
    return new Estimate(
        query.wantsValues() ? bytes : Math.min(bytes, rows * query.columns().defaultSize()), rows);
  }

  /** Topics can be looked up: Spark may tell which ones a join needs. */
  @Override
  public NamedReference[] filterAttributes() {
    boolean isOfUse =
        query.options().isPushingDown() && query.wants(Columns.TOPIC) && query.top() == null;
    return isOfUse
        ? new NamedReference[] {Expressions.column(Columns.TOPIC)}
        : new NamedReference[0];
  }

  /** Narrows the read to what a join needs. Spark calls it while the query runs. */
  @Override
  public synchronized void filter(Predicate[] predicates) {
    Pushdown pushdown = new Pushdown(query.selection());
    pushdown.push(predicates);
    if (pushdown.selection().equals(query.selection())) {
      return;
    }
    plan = plan().again(query.options(), pushdown.selection(), query.wantsValues());
    query =
        new Query(
            query.options(), pushdown.selection(), query.columns(), query.limit(), query.top());
  }

  private record Estimate(long bytes, long rows) implements Statistics {
    @Override
    public OptionalLong sizeInBytes() {
      return OptionalLong.of(bytes);
    }

    @Override
    public OptionalLong numRows() {
      return OptionalLong.of(rows);
    }
  }

  @Override
  public synchronized PartitionReaderFactory createReaderFactory() {
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
