package io.topicdb.spark.summary;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.types.Grouping;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Aggregates of a query that the core can tell: which ones, and their rows. Immutable; goes from the
 * driver to the tasks.
 *
 * @param keys the expressions by which rows are grouped
 * @param functions the aggregates of each group
 */
public record Aggregates(List<Key> keys, List<Function> functions) implements Serializable {
  private static final long DAY_US = 24L * 3_600 * 1_000_000;
  private static final Set<String> UTC = Set.of("UTC", "Etc/UTC", "Z", "GMT", "+00:00");
  private static final Set<String> NEVER_NULL =
      Set.of("topic", "timestamp", "value", "shard", "serial");

  /** What rows may be grouped by: the topic, or the date of the timestamp in UTC. */
  public enum Key {
    TOPIC,
    DATE
  }

  /** What the core can tell of a group. */
  public enum Function {
    COUNT,
    FIRST_TIME,
    LAST_TIME
  }

  /** Returns the aggregates that Spark asks for, or null if the core cannot tell one of them. */
  public static Aggregates of(Aggregation wanted) {
    List<Key> keys = new ArrayList<>();
    for (Expression expression : wanted.groupByExpressions()) {
      Key key = keyOf(expression);
      if (key == null) {
        return null;
      }
      keys.add(key);
    }
    List<Function> functions = new ArrayList<>();
    for (AggregateFunc aggregate : wanted.aggregateExpressions()) {
      Function function = functionOf(aggregate);
      if (function == null) {
        return null;
      }
      functions.add(function);
    }
    return new Aggregates(keys, functions);
  }

  /** Spark turns timestamps into dates by the zone of the session, the core by UTC. */
  private static Key keyOf(Expression expression) {
    if (expression instanceof Cast cast
        && cast.dataType().equals(DataTypes.DateType)
        && "timestamp".equals(column(cast.expression()))) {
      boolean isUtc = UTC.contains(SQLConf.get().sessionLocalTimeZone());
      return isUtc ? Key.DATE : null;
    }
    return "topic".equals(column(expression)) ? Key.TOPIC : null;
  }

  private static Function functionOf(AggregateFunc aggregate) {
    if (aggregate instanceof CountStar) {
      return Function.COUNT;
    }
    if (aggregate instanceof Count count) {
      String column = column(count.column());
      boolean isEachRow = !count.isDistinct() && column != null && NEVER_NULL.contains(column);
      return isEachRow ? Function.COUNT : null;
    }
    if (aggregate instanceof Min min) {
      return "timestamp".equals(column(min.column())) ? Function.FIRST_TIME : null;
    }
    if (aggregate instanceof Max max) {
      return "timestamp".equals(column(max.column())) ? Function.LAST_TIME : null;
    }
    return null;
  }

  /** Returns what the core has to count together. */
  public Grouping grouping() {
    return new Grouping(
        keys.contains(Key.TOPIC) ? Grouping.ALL_LEVELS : 0,
        keys.contains(Key.DATE) ? DAY_US : Slice.ABSENT);
  }

  public boolean isGrouped() {
    return !keys.isEmpty();
  }

  /** Returns the columns of the rows: the keys, then the functions. */
  public StructType schema() {
    StructType schema = new StructType();
    for (Key key : keys) {
      boolean isTopic = key == Key.TOPIC;
      schema =
          schema.add(nameOf(key), isTopic ? DataTypes.StringType : DataTypes.DateType, false);
    }
    for (Function function : functions) {
      boolean isCount = function == Function.COUNT;
      schema =
          schema.add(
              nameOf(function), isCount ? DataTypes.LongType : DataTypes.TimestampType, !isCount);
    }
    return schema;
  }

  /** Returns a row for each group. Without keys there is always one. */
  public InternalRow[] rows(Groups groups) {
    if (groups.size() == 0 && !isGrouped()) {
      return new InternalRow[] {rowOfNothing()};
    }
    InternalRow[] rows = new InternalRow[groups.size()];
    for (int group = 0; group < rows.length; group++) {
      rows[group] = row(groups, group);
    }
    return rows;
  }

  private InternalRow row(Groups groups, int group) {
    List<Object> values = new ArrayList<>();
    for (Key key : keys) {
      values.add(
          switch (key) {
            case TOPIC -> topic(groups, group);
            case DATE -> (int) Math.floorDiv(groups.spanStart(group), DAY_US);
          });
    }
    for (Function function : functions) {
      values.add(
          switch (function) {
            case COUNT -> groups.messages(group);
            case FIRST_TIME -> groups.firstTime(group);
            case LAST_TIME -> groups.lastTime(group);
          });
    }
    return new GenericInternalRow(values.toArray());
  }

  private static UTF8String topic(Groups groups, int group) {
    int begin = groups.topicBegin(group);
    return UTF8String.fromBytes(groups.topics(), begin, groups.topicBegin(group + 1) - begin);
  }

  private InternalRow rowOfNothing() {
    return new GenericInternalRow(
        functions.stream().map(one -> one == Function.COUNT ? 0L : null).toArray());
  }

  /** Says in EXPLAIN what is asked. */
  public String description() {
    String shown = functions.stream().map(Aggregates::nameOf).collect(Collectors.joining(", "));
    String by = keys.stream().map(Aggregates::nameOf).collect(Collectors.joining(", "));
    return ", aggregates [" + shown + "]" + (keys.isEmpty() ? "" : ", by [" + by + "]");
  }

  private static String nameOf(Key key) {
    return key == Key.TOPIC ? "topic" : "date(timestamp)";
  }

  private static String nameOf(Function function) {
    return switch (function) {
      case COUNT -> "count(*)";
      case FIRST_TIME -> "min(timestamp)";
      case LAST_TIME -> "max(timestamp)";
    };
  }

  private static String column(Expression expression) {
    if (expression instanceof NamedReference reference && reference.fieldNames().length == 1) {
      return reference.fieldNames()[0];
    }
    return null;
  }
}
