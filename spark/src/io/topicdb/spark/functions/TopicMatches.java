package io.topicdb.spark.functions;

import io.topicdb.spark.core.Database;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code topic_matches(filter, topic)}: whether a topic matches an MQTT topic filter, by section 4.7
 * of MQTT 5. Null if one of them is null. Immutable; any thread may call it.
 */
public final class TopicMatches implements ScalarFunction<Boolean> {
  /** How Spark calls the function where it pushes it into a read. */
  public static final String CANONICAL_NAME = "io.topicdb.topic_matches";

  private static final long serialVersionUID = 1;

  /** The filter that was asked for last, which was found to be one. A query has one or few. */
  private static volatile UTF8String checked;

  /** Spark calls it by this name. Throws TopicDbException if the filter is none. */
  public static Boolean invoke(UTF8String filter, UTF8String topic) {
    if (filter == null || topic == null) {
      return null;
    }
    if (!filter.equals(checked)) {
      Database.checkFilter(filter.toString());
      checked = filter.copy();
    }
    return matches(filter, topic);
  }

  @Override
  public String name() {
    return "topic_matches";
  }

  @Override
  public String canonicalName() {
    return CANONICAL_NAME;
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.StringType, DataTypes.StringType};
  }

  @Override
  public DataType resultType() {
    return DataTypes.BooleanType;
  }

  @Override
  public Boolean produceResult(InternalRow arguments) {
    boolean hasNull = arguments.isNullAt(0) || arguments.isNullAt(1);
    return hasNull ? null : invoke(arguments.getUTF8String(0), arguments.getUTF8String(1));
  }

  /** Compares byte by byte: levels end at the same places in both. */
  private static boolean matches(UTF8String filter, UTF8String topic) {
    int filterSize = filter.numBytes();
    int topicSize = topic.numBytes();
    boolean isWild = at(filter, 0) == '+' || at(filter, 0) == '#';
    if (isWild && topicSize > 0 && at(topic, 0) == '$') {
      return false;
    }
    int here = 0; // in the filter
    int there = 0; // in the topic
    while (here < filterSize) {
      byte wanted = at(filter, here);
      if (wanted == '#') {
        return true;
      }
      if (wanted == '+') {
        here++;
        while (there < topicSize && at(topic, there) != '/') {
          there++;
        }
      } else if (there < topicSize && at(topic, there) == wanted) {
        here++;
        there++;
      } else {
        return there == topicSize && isRestOptional(filter, here);
      }
    }
    return there == topicSize;
  }

  /** Returns whether the rest of a filter matches nothing, too: "a/#" matches "a". */
  private static boolean isRestOptional(UTF8String filter, int place) {
    return place + 2 == filter.numBytes()
        && at(filter, place) == '/'
        && at(filter, place + 1) == '#';
  }

  /** Returns a byte of a text. That of UTF8String is private in Spark 3.5. */
  private static byte at(UTF8String text, int place) {
    return Platform.getByte(text.getBaseObject(), text.getBaseOffset() + place);
  }
}
