package io.topicdb.spark.functions;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.StructType;

/** The functions that the catalog has, by their names. */
public final class Functions {
  private static final Map<String, UnboundFunction> BY_NAME = new TreeMap<>();

  static {
    add(
        new TopicMatches(),
        "topic_matches(filter, topic): whether a topic matches an MQTT topic filter");
    add(
        new TopicLevel(),
        "topic_level(topic, n): level number n of a topic, from 1, or from -1 at the end");
    add(new TimeBucket(), TimeBucket::bind, TimeBucket.DESCRIPTION);
  }

  private Functions() {}

  public static Set<String> names() {
    return BY_NAME.keySet();
  }

  /** Returns a function, or null if there is none of this name. The case does not matter. */
  public static UnboundFunction named(String name) {
    return BY_NAME.get(name.toLowerCase(Locale.ROOT));
  }

  private static void add(ScalarFunction<?> function, String description) {
    add(function, arguments -> function, description);
  }

  private static void add(
      ScalarFunction<?> function, Function<StructType, BoundFunction> bind, String description) {
    BY_NAME.put(function.name(), new TwoArguments(function, bind, description));
  }
}
