package io.topicdb.spark.place;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;

/**
 * The settings of Hadoop's file systems, as the driver has them: {@code spark.hadoop.fs.…}. They go
 * to the tasks, with secrets, as those of Spark's own formats do. Immutable.
 */
final class HadoopSettings implements Serializable {
  private static final long serialVersionUID = 1;

  private final HashMap<String, String> settings = new HashMap<>();

  private HadoopSettings() {}

  /** Returns the settings of this JVM, which is the driver. */
  static HadoopSettings ofDriver() {
    HadoopSettings found = new HadoopSettings();
    for (Map.Entry<String, String> one : SparkContext.getOrCreate().hadoopConfiguration()) {
      if (one.getKey().startsWith("fs.") || one.getKey().startsWith("hadoop.")) {
        found.settings.put(one.getKey(), one.getValue());
      }
    }
    return found;
  }

  Configuration configuration() {
    Configuration made = new Configuration();
    settings.forEach(made::set);
    return made;
  }
}
