package io.topicdb.spark.select;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.core.Urls;
import io.topicdb.spark.types.AtLeast;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Turns the texts of options into their values. The checks have the names of the functions of
 * topicdb.spark.checks that do the same, and refuse with the same words.
 */
final class Checks {
  private static final long SECONDS_MAX = 1_000_000_000; // less than this

  private Checks() {}

  /** Returns the value of a text. Throws IllegalArgumentException with the reason. */
  static Object check(String name, String text) {
    return switch (name) {
      case "path" -> path(text);
      case "filters" -> filters(text);
      case "time" -> Times.parse(text, "the time");
      case "offsets" -> offsets(text);
      case "seen" -> seen(text);
      case "number" -> number(text);
      case "seconds" -> seconds(text);
      case "flag" -> flag(text);
      case "mode" -> mode(text);
      case "str" -> text;
      case "given" -> given(text);
      default ->
          throw new IllegalArgumentException(
              "this JAR does not take it; use format('topicdb-python')");
    };
  }

  private static String given(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException("expected a text that is not empty");
    }
    return text;
  }

  private static String path(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException("expected the directory of a database");
    }
    if (Urls.isUrl(text)) {
      return text;
    }
    return Path.of(text).toAbsolutePath().normalize().toString(); // tasks may run elsewhere
  }

  private static List<String> filters(String text) {
    List<?> filters = List.of(text);
    if (text.strip().startsWith("[")) {
      try {
        filters = (List<?>) Json.parse(text);
      } catch (IllegalArgumentException error) {
        throw new IllegalArgumentException("expected a topic filter or a JSON list of filters");
      }
      if (filters.isEmpty() || !filters.stream().allMatch(String.class::isInstance)) {
        throw new IllegalArgumentException(
            "expected at least one filter in the list, each a string");
      }
    }
    List<String> texts = filters.stream().map(String.class::cast).distinct().toList();
    for (String filter : texts) {
      try {
        Database.checkFilter(filter);
      } catch (TopicDbException error) {
        if (!error.name().equals(TopicDbException.TOPIC)) {
          throw error;
        }
        throw new IllegalArgumentException(error.text());
      }
    }
    return texts;
  }

  /** Returns "earliest", "latest", or a map from shards to serials. */
  private static Object offsets(String text) {
    String word = text.strip().toLowerCase(Locale.ROOT);
    if (word.equals(Options.EARLIEST) || word.equals(Options.LATEST)) {
      return word;
    }
    try {
      Map<?, ?> given = (Map<?, ?>) Json.parse(text);
      if (given.containsKey("serials")) { // an offset of Spark's checkpoints and logs
        given = (Map<?, ?>) given.get("serials");
      }
      Map<Integer, Long> serials = new HashMap<>();
      given.forEach(
          (shard, serial) -> serials.put(Integer.parseInt((String) shard), (Long) serial));
      if (serials.values().stream().allMatch(serial -> serial != null && serial >= 0)) {
        return serials;
      }
    } catch (IllegalArgumentException | ClassCastException | NullPointerException error) {
      // falls through to the refusal
    }
    throw new IllegalArgumentException(
        "expected \"earliest\", \"latest\" or serials of commits by shard, such as"
            + " {\"0\": 17, \"1\": 4}");
  }

  @SuppressWarnings("unchecked")
  private static AtLeast seen(String text) {
    if (text.strip().toLowerCase(Locale.ROOT).equals("acknowledged")) {
      return AtLeast.ACKNOWLEDGED;
    }
    if (text.strip().startsWith("{")) {
      return new AtLeast((Map<Integer, Long>) offsets(text));
    }
    throw new IllegalArgumentException(
        "expected \"acknowledged\" or serials of commits by shard, such as"
            + " {\"0\": 17, \"1\": 4}");
  }

  private static long number(String text) {
    String digits = text.strip();
    try {
      if (digits.matches("[0-9]+") && Long.parseLong(digits) >= 1) {
        return Long.parseLong(digits);
      }
    } catch (NumberFormatException error) {
      // too large
    }
    throw new IllegalArgumentException("expected a whole number, at least 1");
  }

  private static long seconds(String text) {
    long seconds = number(text);
    if (seconds >= SECONDS_MAX) {
      throw new IllegalArgumentException(
          "the time: expected seconds from 0 on, or None, got " + seconds);
    }
    return seconds;
  }

  private static boolean flag(String text) {
    return one(text.strip().toLowerCase(Locale.ROOT), "true", "false", "expected true or false");
  }

  /** Returns whether malformed rows are left out. */
  private static boolean mode(String text) {
    return one(
        text.strip().toUpperCase(Locale.ROOT),
        "DROPMALFORMED",
        "FAILFAST",
        "expected FAILFAST or DROPMALFORMED");
  }

  private static boolean one(String word, String yes, String no, String refusal) {
    if (Stream.of(yes, no).noneMatch(word::equals)) {
      throw new IllegalArgumentException(refusal);
    }
    return word.equals(yes);
  }
}
