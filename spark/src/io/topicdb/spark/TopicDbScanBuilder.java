package io.topicdb.spark;

import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Pushdown;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/**
 * Gathers what the optimizer pushes into one read: columns, predicates, and a limit. Spark makes
 * one for each read of a query, and calls it from one thread.
 */
final class TopicDbScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  private final Map<String, String> given;
  private StructType columns;
  private int limit = Query.NO_LIMIT;

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

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    try {
      beginBatch();
    } catch (IllegalArgumentException refusal) {
      return new StreamScan(given, columns, refusal);
    }
    return new TopicDbScan(
        new Query(options, pushdown.selection(), columns, limit), pushdown.pushed(), given);
  }

  private void beginBatch() {
    if (options == null) {
      options = Options.ofBatch(given);
      pushdown = new Pushdown(options.selection());
    }
  }
}
