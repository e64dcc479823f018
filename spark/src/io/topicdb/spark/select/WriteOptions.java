package io.topicdb.spark.select;

import io.topicdb.spark.core.Urls;
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
    String path = (String) values.get("path");
    if (Urls.isUrl(path)) {
      throw new IllegalArgumentException(
          "option path=" + Texts.quoted(path)
              + ": an upload is only read: write to the directory of the database, and upload it"
              + " again");
    }
    return new WriteOptions(
        path,
        (Boolean) values.getOrDefault("mode", false),
        (Long) values.getOrDefault("commitTimeout", 60L));
  }
}
