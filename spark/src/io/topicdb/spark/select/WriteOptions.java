package io.topicdb.spark.select;

import java.io.Serializable;
import java.util.Map;

/**
 * The options of a write. Immutable; goes from the driver to the tasks.
 *
 * @param path the directory of the database
 * @param dropsMalformed whether rows that are no valid messages are left out and counted
 * @param commitTimeoutSeconds how long a commit waits for processes that have shards open
 */
public record WriteOptions(String path, boolean dropsMalformed, long commitTimeoutSeconds)
    implements Serializable {
  /** Parses the options of a write. Throws IllegalArgumentException, which names the option. */
  public static WriteOptions of(Map<String, String> given) {
    Map<String, Object> values = OptionTable.OPTIONS.parse(given, "write");
    return new WriteOptions(
        (String) values.get("path"),
        (Boolean) values.getOrDefault("mode", false),
        (Long) values.getOrDefault("commitTimeout", 60L));
  }
}
