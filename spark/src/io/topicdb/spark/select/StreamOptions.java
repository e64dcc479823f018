package io.topicdb.spark.select;

import io.topicdb.spark.core.Urls;
import java.util.List;
import java.util.Map;

/**
 * The options of a stream of reads. Immutable; stays on the driver.
 *
 * @param read what every micro-batch reads: without times and serials
 * @param start the stream begins at the first commit with a message of this time or later; µs since
 *     1970, or null
 * @param starting without a start: {@link #EARLIEST}, {@link #LATEST}, or a map from shards to the
 *     serials behind which the stream begins
 * @param messagesMax the most messages of a micro-batch, or null
 * @param bytesMax the most bytes of it, or null
 * @param isInCommitOrder whether a task gets its messages in the order of their commits
 */
public record StreamOptions(
    Options read,
    Long start,
    Object starting,
    Long messagesMax,
    Long bytesMax,
    boolean isInCommitOrder) {
  public static final String EARLIEST = Options.EARLIEST;
  public static final String LATEST = Options.LATEST;

  /** Options that exclude each other. */
  private static final List<List<String>> EITHER =
      List.of(
          List.of("maxMessagesPerTrigger", "maxBytesPerTrigger"),
          List.of("startingOffsets", "startingTimestamp"));

  /**
   * Returns the filters for what concerns every topic, or null. A token may be allowed no more than
   * the filters of the query.
   */
  public List<String> everyTopic() {
    return read.servers() == null ? null : read.filters();
  }

  /** Parses the options. Throws IllegalArgumentException, which names the option. */
  public static StreamOptions of(Map<String, String> given) {
    Map<String, Object> values = OptionTable.OPTIONS.parse(given, "stream");
    for (List<String> pair : EITHER) {
      if (values.keySet().containsAll(pair)) {
        throw new IllegalArgumentException(
            "options " + pair.get(0) + " and " + pair.get(1) + ": give one of them, not both");
      }
    }
    if (values.get("path") instanceof String path && Urls.isUrl(path)) {
      throw new IllegalArgumentException(
          "option path=" + Texts.quoted(path)
              + ": an upload does not grow: read it by batch, and stream from the database");
    }
    return new StreamOptions(
        Options.of(values, null, null, Map.of(), Map.of()),
        (Long) values.get("startingTimestamp"),
        values.getOrDefault("startingOffsets", LATEST),
        (Long) values.get("maxMessagesPerTrigger"),
        (Long) values.get("maxBytesPerTrigger"),
        (Boolean) values.getOrDefault("commitOrder", true));
  }
}
