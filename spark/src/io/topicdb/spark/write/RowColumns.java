package io.topicdb.spark.write;

import io.topicdb.spark.core.Staging;
import io.topicdb.spark.core.TopicDbException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.StructType;

/**
 * Where the columns of rows to be written are; -1 for one that is not there. Immutable; goes from
 * the driver to the tasks.
 *
 * @param isValueText whether values are strings
 * @param isKeyText whether keys are strings
 */
record RowColumns(
    int topic, int timestamp, int value, int key, boolean isValueText, boolean isKeyText)
    implements Serializable {
  static final int ABSENT = -1;
  private static final String STRING = "string";
  private static final String KEY = "key";
  private static final Map<String, List<String>> TYPES =
      Map.of(
          "topic", List.of(STRING),
          "timestamp", List.of("timestamp", "bigint"),
          "value", List.of("binary", STRING),
          KEY, List.of(STRING, "binary"));

  /**
   * Checks the columns of rows for a database, as topicdb.spark.columns does, and in
   * its words.
   *
   * @throws IllegalArgumentException names the column, the type that it should have and the one that
   *     it has
   * @throws TopicDbException there is no database, or it has no keys
   */
  static RowColumns of(StructType schema, Staging staging, String place) {
    Map<String, String> types = new HashMap<>();
    Map<String, Integer> places = new HashMap<>();
    for (int i = 0; i < schema.length(); i++) {
      types.put(schema.apply(i).name(), schema.apply(i).dataType().simpleString());
      places.put(schema.apply(i).name(), i);
    }
    if (types.size() < schema.length()) {
      throw refusal("columns: two have the same name, of " + listed(schema));
    }
    for (String name : List.of("topic", "timestamp", "value")) {
      if (types.containsKey(name)) {
        checkType(name, types.get(name));
      } else if (!name.equals("timestamp")) {
        throw refusal("column '" + name + "' is missing; the DataFrame has " + listed(schema));
      }
    }
    for (String name : schema.fieldNames()) {
      if (!TYPES.containsKey(name)) {
        throw refusal(
            "column '" + name
                + "' is unknown: expected topic, timestamp, value and key; select them");
      }
    }
    checkKey(types, staging, place);
    return new RowColumns(
        places.get("topic"),
        places.getOrDefault("timestamp", ABSENT),
        places.get("value"),
        places.getOrDefault(KEY, ABSENT),
        types.get("value").equals(STRING),
        STRING.equals(types.get(KEY)));
  }

  private static void checkKey(Map<String, String> types, Staging staging, String place) {
    boolean hasKeys = staging.shardsByKey();
    if (!types.containsKey(KEY)) {
      return;
    }
    checkType(KEY, types.get(KEY));
    if (!hasKeys) {
      throw new TopicDbException(
          "SchemaError",
          "column 'key': " + place + " is sharded by topic, and its messages have no keys: leave the"
              + " column out, or write to a database that was created with shard_by='key'");
    }
  }

  private static void checkType(String name, String type) {
    List<String> allowed = TYPES.get(name);
    if (!allowed.contains(type)) {
      throw refusal(
          "column '" + name + "': expected " + String.join(" or ", allowed) + ", got " + type);
    }
  }

  private static String listed(StructType schema) {
    return Arrays.stream(schema.fieldNames())
        .map(name -> "'" + name + "'")
        .collect(Collectors.joining(", ", "[", "]"));
  }

  private static IllegalArgumentException refusal(String text) {
    return new IllegalArgumentException(text);
  }
}
