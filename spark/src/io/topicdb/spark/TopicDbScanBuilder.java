package io.topicdb.spark;

import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Pushdown;
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
  private final Options options;
  private final Pushdown pushdown;
  private StructType columns;
  private int limit = Query.NO_LIMIT;

  TopicDbScanBuilder(Options options, StructType columns) {
    this.options = options;
    this.columns = columns;
    pushdown = new Pushdown(options.selection());
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    return options.isPushingDown() ? pushdown.push(predicates) : predicates;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushdown.pushed();
  }

  /** Each task reads at most this many messages. Spark takes as many of all tasks. */
  @Override
  public boolean pushLimit(int messages) {
    limit = messages;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    return new TopicDbScan(
        new Query(options, pushdown.selection(), columns, limit), pushdown.pushed());
  }
}
