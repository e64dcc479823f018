package io.topicdb.spark.select;

import io.topicdb.spark.core.Urls;
import java.io.Serializable;
import java.util.Map;

/**
 * The options of a write. Immutable; goes from the driver to the tasks.
 *
 * @param path the directory of the database, or null
 * @param servers the one that offers it instead, or null
 * @param dropsMalformed whether rows that are no valid messages are left out and counted
 * @param commitTimeoutSeconds how long a commit waits for processes that have shards open
 */
public record WriteOptions(
    String path, Servers servers, boolean dropsMalformed, long commitTimeoutSeconds)
    implements Serializable {
  /** Parses the options of a write. Throws IllegalArgumentException, which names the option. */
  public static WriteOptions of(Map<String, String> given) {
    Map<String, Object> values = OptionTable.OPTIONS.parse(given, "write");
    String path = (String) values.get("path");
    if (path != null && Urls.isUrl(path)) {
      throw new IllegalArgumentException(
          "option path=" + Texts.quoted(path)
              + ": an upload is only read: write to the directory of the database, and upload it"
              + " again");
    }
    Servers servers = values.containsKey("remote") ? Servers.of(values) : null;
    if (servers != null && servers.addresses().size() > 1) {
      throw new IllegalArgumentException(
          "option remote=" + Texts.quoted((String) values.get("remote"))
              + ": a write goes to one server, since only one process writes a database: give its"
              + " address");
    }
    return new WriteOptions(
        path,
        servers,
        (Boolean) values.getOrDefault("mode", false),
        (Long) values.getOrDefault("commitTimeout", 60L));
  }

  /** Returns the name of the database for messages: its directory, or its server. */
  public String place() {
    return servers == null ? path : servers.toString();
  }
}
