package io.topicdb.spark.vectors;

import io.topicdb.spark.select.Options;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The columns that a read has, by its options: those of topicdb.spark.columns. */
public final class Columns {
  public static final String SHARD = "shard";
  public static final String SERIAL = "serial";
  public static final String TOPIC = "topic";
  public static final String VALUE = "value";

  private static final StructType MESSAGES =
      new StructType()
          .add(TOPIC, DataTypes.StringType, false)
          .add("timestamp", DataTypes.TimestampType, false)
          .add(VALUE, DataTypes.BinaryType, false);

  private static final StructType METADATA =
      new StructType()
          .add(SHARD, DataTypes.IntegerType, false)
          .add(SERIAL, DataTypes.LongType, false);

  private static final DataType PAIRS =
      DataTypes.createArrayType(
          new StructType()
              .add("name", DataTypes.StringType, false)
              .add(VALUE, DataTypes.StringType, false),
          false);

  /** In the order in which the core gives them. */
  private static final StructType PROPERTIES =
      new StructType()
          .add("qos", DataTypes.IntegerType)
          .add("retain", DataTypes.BooleanType)
          .add("client_id", DataTypes.StringType)
          .add("payload_format", DataTypes.IntegerType)
          .add("message_expiry_s", DataTypes.LongType)
          .add("content_type", DataTypes.StringType)
          .add("response_topic", DataTypes.StringType)
          .add("correlation_data", DataTypes.BinaryType)
          .add("user_properties", PAIRS)
          .add("subscription_ids", DataTypes.createArrayType(DataTypes.LongType, false))
          .add("received", DataTypes.TimestampType);

  private Columns() {}

  /** Returns the columns of a read with these options. */
  public static StructType of(Map<String, String> options) {
    StructType columns = MESSAGES;
    if (Options.isTrue(options, "includeMetadata")) {
      columns = columns.merge(METADATA, true);
    }
    if (Options.isTrue(options, "includeProperties")) {
      columns = columns.merge(PROPERTIES, true);
    }
    return columns;
  }

  /** Returns whether a column is one of those of MQTT properties. */
  public static boolean isProperty(String name) {
    return PROPERTIES.getFieldIndex(name).isDefined();
  }

  /** Returns all columns that the core gives, in its order: with or without properties. */
  static StructType given(boolean withProperties) {
    return withProperties ? MESSAGES.merge(PROPERTIES, true) : MESSAGES;
  }

  /**
   * Throws IllegalArgumentException if a schema that a user gave is not the one that there is.
   *
   * @param format the name of the format, for the message
   */
  public static void check(StructType given, StructType wanted, String format) {
    if (!text(given).equals(text(wanted))) {
      throw new IllegalArgumentException(
          "schema: format('" + format + "') gives " + text(wanted) + "; leave out .schema(…)");
    }
  }

  private static String text(StructType columns) {
    return Arrays.stream(columns.fields())
        .map(field -> field.name() + " " + field.dataType().simpleString())
        .collect(Collectors.joining(", "));
  }
}
