package io.topicdb.spark.select;

import io.topicdb.spark.core.TopicDbException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The table of options of {@code format("topicdb")}, which comes from topicdb.spark.options: so the
 * source in Python and this one take and refuse the same. Immutable, one for the JVM.
 */
final class OptionTable {
  private static final String RESOURCE = "/io/topicdb/spark/options.tsv";
  private static final String RESERVED = "not_yet";
  private static final Map<String, String> KINDS =
      Map.of("batch", "a batch read", "stream", "a stream read", "write", "a write");
  static final OptionTable OPTIONS = new OptionTable();

  /** An option: its name, the name of the check of its text, and the kinds of query that take it. */
  record Option(String name, String check, Set<String> uses) {}

  private final Map<String, Option> byKey = new HashMap<>();

  private OptionTable() {
    try (InputStream stream = OptionTable.class.getResourceAsStream(RESOURCE);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] fields = line.split("\t");
        byKey.put(
            fields[0].toLowerCase(Locale.ROOT),
            new Option(fields[0], fields[1], Set.of(fields[2].split(","))));
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /**
   * Returns the values of the options that are given, by their proper names.
   *
   * @param use batch, stream or write
   * @throws IllegalArgumentException names an option that is unknown, out of place or wrong
   */
  Map<String, Object> parse(Map<String, String> given, String use) {
    Map<String, Object> values = new HashMap<>();
    given.forEach(
        (key, text) -> {
          Option option = byKey.get(key.toLowerCase(Locale.ROOT));
          boolean isReserved = option != null && option.check().equals(RESERVED);
          if (option == null || (!isReserved && !option.uses().contains(use))) {
            throw unknown(key, option, use);
          }
          try {
            values.put(option.name(), Checks.check(option.check(), text));
          } catch (TopicDbException error) {
            throw error; // not about the option
          } catch (IllegalArgumentException error) {
            throw new IllegalArgumentException(
                "option " + option.name() + "=" + Texts.quoted(text) + ": " + error.getMessage());
          }
        });
    if (!values.containsKey("path")) {
      throw new IllegalArgumentException(
          "option path is missing: give the directory of the database, as in"
              + " spark.read.format('topicdb-native').load('/data/fleet.db')");
    }
    return values;
  }

  private IllegalArgumentException unknown(String key, Option option, String use) {
    List<String> names = new ArrayList<>();
    for (Option one : byKey.values()) {
      if (one.uses().contains(use)) {
        names.add(one.name());
      }
    }
    String takes = names.stream().sorted().collect(Collectors.joining(", "));
    String kind = KINDS.get(use);
    return new IllegalArgumentException(
        option == null
            ? "option " + Texts.quoted(key) + " is unknown; " + kind + " takes " + takes
            : "option " + Texts.quoted(option.name()) + " is not for " + kind + ", which takes "
                + takes);
  }
}
