package io.topicdb.spark.summary;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.functions.TimeBucket;
import io.topicdb.spark.functions.TopicLevel;
import io.topicdb.spark.types.Grouping;
import java.io.Serializable;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * An expression by which rows are grouped, and which the core or a group of the core tells.
 * Immutable; goes from the driver to the tasks.
 *
 * @param kind what it is
 * @param number of a level, or the µs of a bucket; 0 otherwise
 */
record Key(Kind kind, long number) implements Serializable {
  private static final long DAY_US = 24L * 3_600 * 1_000_000;
  private static final Set<String> UTC = Set.of("UTC", "Etc/UTC", "Z", "GMT", "+00:00");

  /** The topic, a level of it, the date of the timestamp in UTC, or the start of its bucket. */
  enum Kind {
    TOPIC,
    LEVEL,
    DATE,
    BUCKET
  }

  /** Returns the key that Spark asks for, or null if the core cannot tell it. */
  static Key of(Expression expression) {
    if (expression instanceof UserDefinedScalarFunc call) {
      return ofCall(call);
    }
    if (expression instanceof Cast cast) {
      // Spark turns timestamps into dates by the zone of the session, the core by UTC.
      boolean isDate =
          cast.dataType().equals(DataTypes.DateType)
              && isColumn("timestamp", cast.expression())
              && UTC.contains(SQLConf.get().sessionLocalTimeZone());
      return isDate ? new Key(Kind.DATE, 0) : null;
    }
    return isColumn("topic", expression) ? new Key(Kind.TOPIC, 0) : null;
  }

  private static Key ofCall(UserDefinedScalarFunc call) {
    Expression[] arguments = call.children();
    switch (call.canonicalName()) {
      case TopicLevel.CANONICAL_NAME -> {
        boolean isLevel =
            isColumn("topic", arguments[0])
                && arguments[1] instanceof Literal<?> level
                && level.value() instanceof Integer number
                && number != 0;
        return isLevel ? new Key(Kind.LEVEL, numberOf(arguments[1])) : null;
      }
      case TimeBucket.CANONICAL_NAME -> {
        boolean isBucket =
            isColumn("timestamp", arguments[1])
                && arguments[0] instanceof Literal<?> width
                && width.value() instanceof Long number
                && number > 0;
        return isBucket ? new Key(Kind.BUCKET, numberOf(arguments[0])) : null;
      }
      default -> {
        return null;
      }
    }
  }

  private static long numberOf(Expression literal) {
    return ((Number) ((Literal<?>) literal).value()).longValue();
  }

  /** Returns how many levels of topics the core has to tell apart. */
  int levels() {
    return switch (kind) {
      case TOPIC -> Grouping.ALL_LEVELS;
      case LEVEL -> number > 0 ? (int) number : Grouping.ALL_LEVELS;
      case DATE, BUCKET -> 0;
    };
  }

  /** Returns the µs of the spans that the core has to tell apart, 0 for none. */
  long span() {
    return switch (kind) {
      case DATE -> DAY_US;
      case BUCKET -> number;
      case TOPIC, LEVEL -> 0;
    };
  }

  /** Returns whether groups of the core that differ always have different keys of this kind. */
  boolean isOneToOne() {
    return kind != Kind.LEVEL;
  }

  /** Returns the key of a group as Spark has it. */
  Object valueOf(Groups groups, int group) {
    return switch (kind) {
      case TOPIC -> topic(groups, group);
      case LEVEL -> TopicLevel.invoke(topic(groups, group), (int) number);
      case DATE -> (int) Math.floorDiv(groups.spanStart(group), DAY_US);
      case BUCKET -> groups.spanStart(group);
    };
  }

  private static UTF8String topic(Groups groups, int group) {
    int begin = groups.topicBegin(group);
    return UTF8String.fromBytes(groups.topics(), begin, groups.topicBegin(group + 1) - begin);
  }

  DataType type() {
    return switch (kind) {
      case TOPIC, LEVEL -> DataTypes.StringType;
      case DATE -> DataTypes.DateType;
      case BUCKET -> DataTypes.TimestampType;
    };
  }

  /** A topic may have fewer levels. */
  boolean isNullable() {
    return kind == Kind.LEVEL;
  }

  /** Says in EXPLAIN what it is. */
  String shown() {
    return switch (kind) {
      case TOPIC -> "topic";
      case LEVEL -> "topic_level(topic, " + number + ")";
      case DATE -> "date(timestamp)";
      case BUCKET -> "time_bucket(" + number + " us, timestamp)";
    };
  }

  private static boolean isColumn(String name, Expression expression) {
    return expression instanceof NamedReference reference
        && reference.fieldNames().length == 1
        && reference.fieldNames()[0].equals(name);
  }
}
