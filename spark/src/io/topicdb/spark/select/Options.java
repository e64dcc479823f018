package io.topicdb.spark.select;

import io.topicdb.spark.types.AtLeast;
import java.io.Serializable;
import java.util.List;
import java.util.Map;

/**
 * The options of a batch read, or of each micro-batch of a stream. Immutable; goes from the driver
 * to the tasks.
 *
 * @param path the directory of the database, or null
 * @param servers those that offer it instead, or null
 * @param filters null stands for every topic
 * @param start µs since 1970, or null
 * @param end µs since 1970, or null
 * @param after by shard: only later commits
 * @param until by shard: only commits up to this one
 * @param atLeast what the read must see when it is planned
 * @param tasksMin about the least number of tasks
 * @param isPushingDown whether predicates limit what is read
 */
public record Options(
    String path,
    Servers servers,
    List<String> filters,
    Long start,
    Long end,
    Map<Integer, Long> after,
    Map<Integer, Long> until,
    AtLeast atLeast,
    long tasksMin,
    boolean failsOnDataLoss,
    boolean isPushingDown)
    implements Serializable {
  static final String EARLIEST = "earliest";
  static final String LATEST = "latest";

  /** Parses the options of a batch read. Throws IllegalArgumentException, which names the option. */
  @SuppressWarnings("unchecked")
  public static Options ofBatch(Map<String, String> given) {
    Map<String, Object> values = OptionTable.OPTIONS.parse(given, "batch");
    Object after = values.getOrDefault("startingOffsets", EARLIEST);
    Object until = values.getOrDefault("endingOffsets", LATEST);
    if (after.equals(LATEST) || until.equals(EARLIEST)) {
      String name = after.equals(LATEST) ? "startingOffsets" : "endingOffsets";
      throw new IllegalArgumentException(
          "option " + name + ": a batch read from there has no messages");
    }
    return of(
        values,
        (Long) values.get("startingTimestamp"),
        (Long) values.get("endingTimestamp"),
        after.equals(EARLIEST) ? Map.of() : (Map<Integer, Long>) after,
        until.equals(LATEST) ? Map.of() : (Map<Integer, Long>) until);
  }

  /** Returns options with these bounds, and what batch reads and streams have in common. */
  @SuppressWarnings("unchecked")
  static Options of(
      Map<String, Object> values,
      Long start,
      Long end,
      Map<Integer, Long> after,
      Map<Integer, Long> until) {
    return new Options(
        (String) values.get("path"),
        values.containsKey("remote") ? Servers.of(values) : null,
        (List<String>) values.get("topicFilter"),
        start,
        end,
        after,
        until,
        (AtLeast) values.getOrDefault("atLeast", AtLeast.NOTHING),
        (Long) values.getOrDefault("minPartitions", 1L),
        (Boolean) values.getOrDefault("failOnDataLoss", true),
        (Boolean) values.getOrDefault("pushdown", true));
  }

  /** Returns the name of the database for messages: its directory, or its servers. */
  public String place() {
    return servers == null ? path : servers.toString();
  }

  /** Returns the topics and times that the options ask for. */
  public Selection selection() {
    return new Selection(filters, start, end);
  }

  /** Returns whether a flag is given and true. Checks nothing else; {@link #ofBatch} does later. */
  public static boolean isTrue(Map<String, String> given, String name) {
    return given.entrySet().stream()
        .anyMatch(
            one ->
                one.getKey().equalsIgnoreCase(name)
                    && one.getValue().strip().equalsIgnoreCase("true"));
  }
}
