package io.topicdb.spark.summary;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.types.Grouping;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates of a query that the core can tell: which ones, and their rows. Immutable; goes from the
 * driver to the tasks.
 *
 * @param keys the expressions by which rows are grouped
 * @param functions the aggregates of each group
 */
public record Aggregates(List<Key> keys, List<Function> functions) implements Serializable {
  private static final Set<String> NEVER_NULL =
      Set.of("topic", "timestamp", "value", "shard", "serial");

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
      Key key = Key.of(expression);
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
    boolean isOneSpan = keys.stream().mapToLong(Key::span).filter(span -> span > 0).distinct().count() <= 1;
    return isOneSpan ? new Aggregates(keys, functions) : null;
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
    int levels = 0;
    long span = Slice.ABSENT;
    for (Key key : keys) {
      boolean isWhole = levels == Grouping.ALL_LEVELS || key.levels() == Grouping.ALL_LEVELS;
      levels = isWhole ? Grouping.ALL_LEVELS : Math.max(levels, key.levels());
      span = key.span() > 0 ? key.span() : span;
    }
    return new Grouping(levels, span);
  }

  public boolean isGrouped() {
    return !keys.isEmpty();
  }

  /** Returns the columns of the rows: the keys, then the functions. */
  public StructType schema() {
    StructType schema = new StructType();
    for (Key key : keys) {
      schema = schema.add(key.shown(), key.type(), key.isNullable());
    }
    for (Function function : functions) {
      boolean isCount = function == Function.COUNT;
      schema =
          schema.add(
              nameOf(function), isCount ? DataTypes.LongType : DataTypes.TimestampType, !isCount);
    }
    return schema;
  }

  /**
   * Returns rows of groups. Without keys there is always one. Several may have the same keys, if
   * levels are among these: see {@link #merged}.
   */
  public InternalRow[] rows(Groups groups) {
    if (groups.size() == 0 && !isGrouped()) {
      return new InternalRow[] {rowOfNothing()};
    }
    InternalRow[] rows = new InternalRow[groups.size()];
    for (int group = 0; group < rows.length; group++) {
      rows[group] = new GenericInternalRow(values(groups, group));
    }
    return rows;
  }

  /** Returns the same, but one row for all groups with the same keys. */
  public InternalRow[] merged(Groups groups) {
    if (keys.stream().allMatch(Key::isOneToOne)) {
      return rows(groups);
    }
    Map<List<Object>, Object[]> rows = new LinkedHashMap<>();
    for (int group = 0; group < groups.size(); group++) {
      Object[] more = values(groups, group);
      rows.merge(Arrays.asList(more).subList(0, keys.size()), more, this::sum);
    }
    return rows.values().stream().map(GenericInternalRow::new).toArray(InternalRow[]::new);
  }

  /** Puts two rows with the same keys together. */
  private Object[] sum(Object[] one, Object[] other) {
    for (int i = 0; i < functions.size(); i++) {
      int place = keys.size() + i;
      long mine = (long) one[place];
      long more = (long) other[place];
      one[place] =
          switch (functions.get(i)) {
            case COUNT -> mine + more;
            case FIRST_TIME -> Math.min(mine, more);
            case LAST_TIME -> Math.max(mine, more);
          };
    }
    return one;
  }

  private Object[] values(Groups groups, int group) {
    List<Object> values = new ArrayList<>();
    for (Key key : keys) {
      values.add(key.valueOf(groups, group));
    }
    for (Function function : functions) {
      values.add(
          switch (function) {
            case COUNT -> groups.messages(group);
            case FIRST_TIME -> groups.firstTime(group);
            case LAST_TIME -> groups.lastTime(group);
          });
    }
    return values.toArray();
  }

  private InternalRow rowOfNothing() {
    return new GenericInternalRow(
        functions.stream().map(one -> one == Function.COUNT ? 0L : null).toArray());
  }

  /** Says in EXPLAIN what is asked. */
  public String description() {
    String shown = functions.stream().map(Aggregates::nameOf).collect(Collectors.joining(", "));
    String by = keys.stream().map(Key::shown).collect(Collectors.joining(", "));
    return ", aggregates [" + shown + "]" + (keys.isEmpty() ? "" : ", by [" + by + "]");
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
