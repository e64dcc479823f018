package io.topicdb.spark.types;

import java.io.Serializable;

/**
 * What one task has staged. Immutable; goes from the task to the driver.
 *
 * @param file its name in the folder of the job, empty if there were no messages
 * @param bytes of topics and values
 * @param malformed how many rows were left out
 */
public record Staged(String file, long messages, long bytes, long malformed)
    implements Serializable {
  /** Returns the same with more rows that were left out. */
  public Staged withMalformed(long more) {
    return new Staged(file, messages, bytes, malformed + more);
  }
}
