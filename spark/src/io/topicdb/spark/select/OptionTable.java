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
  private static final String SECRET = "secret";
  private static final Map<String, String> KINDS =
      Map.of("batch", "a batch read", "stream", "a stream read", "write", "a write");
  /** The options that say how to talk to a server, in the order in which they are refused. */
  private static final List<String> OF_REMOTE =
      List.of(
          "token",
          "tls_root_certs",
          "tls_certificate_name",
          "tls_certificate",
          "tls_key",
          "insecure");

  static final OptionTable OPTIONS = new OptionTable();

  /**
   * An option.
   *
   * @param check the name of the check of its text
   * @param uses the kinds of query that take it
   * @param isSecret if true, errors do not show its text
   */
  record Option(String name, String check, Set<String> uses, boolean isSecret) {}

  private final Map<String, Option> byKey = new HashMap<>();

  private OptionTable() {
    try (InputStream stream = OptionTable.class.getResourceAsStream(RESOURCE);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] fields = line.split("\t");
        byKey.put(
            fields[0].toLowerCase(Locale.ROOT),
            new Option(
                fields[0],
                fields[1],
                Set.of(fields[2].split(",")),
                fields.length > 3 && fields[3].equals(SECRET)));
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
          if (option == null || !option.uses().contains(use)) {
            throw unknown(key, option, use);
          }
          try {
            values.put(option.name(), Checks.check(option.check(), text));
          } catch (TopicDbException error) {
            throw error; // not about the option
          } catch (IllegalArgumentException error) {
            String shown = option.isSecret() ? "…" : Texts.quoted(text);
            throw new IllegalArgumentException(
                "option " + option.name() + "=" + shown + ": " + error.getMessage());
          }
        });
    checkPlace(values.keySet());
    return values;
  }

  /** Throws IllegalArgumentException unless the options name a directory or servers, and no more. */
  private static void checkPlace(Set<String> given) {
    if (given.contains("path") && given.contains("remote")) {
      throw new IllegalArgumentException(
          "options path and remote: give one of them, not both: a directory, or servers that offer"
              + " it");
    }
    if (given.contains("remote")) {
      return;
    }
    if (!given.contains("path")) {
      throw new IllegalArgumentException(
          "option path is missing: give the directory of the database, as in"
              + " spark.read.format('topicdb').load('/data/fleet.db'), or its servers with"
              + " remote");
    }
    for (String name : OF_REMOTE) {
      if (given.contains(name)) {
        throw new IllegalArgumentException(
            "option " + name + " goes with remote, which is missing");
      }
    }
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
