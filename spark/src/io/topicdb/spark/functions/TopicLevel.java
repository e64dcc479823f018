package io.topicdb.spark.functions;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code topic_level(topic, n)}: the level of a topic with this number, counted from 1, or from -1 at
 * the end. Levels are what stands between slashes, and may be empty. Null if there is no such level,
 * or if an argument is null. Immutable; any thread may call it.
 */
public final class TopicLevel implements ScalarFunction<UTF8String> {
  /** How Spark calls the function where it pushes it into a read. */
  public static final String CANONICAL_NAME = "io.topicdb.topic_level";

  private static final String NAME = "topic_level";
  private static final long serialVersionUID = 1;

  /** Spark calls it by this name. */
  public static UTF8String invoke(UTF8String topic, int number) {
    if (topic == null) {
      return null;
    }
    if (number == 0) {
      throw new IllegalArgumentException(
          "topic_level: levels are counted from 1, and from -1 at the end; got 0");
    }
    byte[] bytes = topic.getBytes();
    int place = number > 0 ? number - 1 : levels(bytes) + number;
    if (place < 0) {
      return null;
    }
    int start = 0;
    for (int at = 0; at <= bytes.length; at++) {
      if (at == bytes.length || bytes[at] == '/') {
        if (place-- == 0) {
          return UTF8String.fromBytes(bytes, start, at - start);
        }
        start = at + 1;
      }
    }
    return null;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String canonicalName() {
    return CANONICAL_NAME;
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.StringType, DataTypes.IntegerType};
  }

  @Override
  public DataType resultType() {
    return DataTypes.StringType;
  }

  @Override
  public UTF8String produceResult(InternalRow arguments) {
    boolean hasNull = arguments.isNullAt(0) || arguments.isNullAt(1);
    return hasNull ? null : invoke(arguments.getUTF8String(0), arguments.getInt(1));
  }

  private static int levels(byte[] topic) {
    int found = 1;
    for (byte one : topic) {
      found += one == '/' ? 1 : 0;
    }
    return found;
  }
}
