package io.topicdb.spark;

import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Pushdown;
import io.topicdb.spark.select.Top;
import io.topicdb.spark.summary.Aggregates;
import io.topicdb.spark.summary.LocalSummary;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/**
 * Gathers what the optimizer pushes into one read: columns, predicates, aggregates, and a limit.
 * Spark makes one for each read of a query, and calls it from one thread.
 */
final class TopicDbScanBuilder
    implements SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownLimit,
        SupportsPushDownTopN,
        SupportsPushDownAggregates {
  private final Map<String, String> given;
  private StructType columns;
  private int limit = Query.NO_LIMIT;
  private Top top; // null: all messages are wanted
  private Aggregates aggregates; // null: rows are wanted
  private Aggregates tried; // what the driver has tried to find by itself
  private InternalRow[] found; // by it; null: tasks have to find it

  /** Null until it is sure that this is a batch read: nothing but columns is pushed into a stream. */
  private Options options;

  private Pushdown pushdown;

  /**
   * @param given options, of a batch read or of a stream
   */
  TopicDbScanBuilder(Map<String, String> given, StructType columns) {
    this.given = given;
    this.columns = columns;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    beginBatch();
    return options.isPushingDown() ? pushdown.push(predicates) : predicates;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return options == null ? new Predicate[0] : pushdown.pushed();
  }

  /** Each task reads at most this many messages. Spark takes as many of all tasks. */
  @Override
  public boolean pushLimit(int messages) {
    beginBatch();
    limit = messages;
    return true;
  }

  /**
   * Returns whether the read narrows its times to those of the newest or oldest messages. Spark sorts
   * them. Servers do not count slices, which that takes.
   */
  @Override
  public boolean pushTopN(SortOrder[] orders, int messages) {
    beginBatch();
    boolean mayPush = options.isPushingDown() && options.servers() == null;
    top = mayPush ? Top.of(orders, messages) : null;
    return top != null;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  /** Returns whether the driver has found the aggregates: then nothing is left to be done. */
  @Override
  public boolean supportCompletePushDown(Aggregation wanted) {
    Aggregates asked = asked(wanted);
    if (asked == null) {
      return false;
    }
    if (!asked.equals(tried)) {
      found = LocalSummary.find(options, pushdown.selection(), asked);
      tried = asked;
    }
    return found != null;
  }

  /** Spark asks only if it has no predicate to check by itself. */
  @Override
  public boolean pushAggregation(Aggregation wanted) {
    aggregates = asked(wanted);
    return aggregates != null;
  }

  /** Returns the aggregates, or null if Spark has to find them. Servers do not count slices. */
  private Aggregates asked(Aggregation wanted) {
    beginBatch();
    return options.isPushingDown() && options.servers() == null ? Aggregates.of(wanted) : null;
  }

  @Override
  public Scan build() {
    try {
      beginBatch();
    } catch (IllegalArgumentException refusal) {
      return new StreamScan(given, columns, refusal);
    }
    if (aggregates != null) {
      String description =
          TopicDbScan.described(options, pushdown.selection(), pushdown.pushed())
              + aggregates.description();
      return found != null && aggregates.equals(tried)
          ? new LocalSummary(aggregates, found, description)
          : new SummaryScan(options, pushdown.selection(), aggregates, description);
    }
    return new TopicDbScan(
        new Query(options, pushdown.selection(), columns, limit, top), pushdown.pushed(), given);
  }

  private void beginBatch() {
    if (options == null) {
      options = Options.ofBatch(given);
      pushdown = new Pushdown(options.selection());
    }
  }
}
