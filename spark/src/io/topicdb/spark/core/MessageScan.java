package io.topicdb.spark.core;

import io.topicdb.spark.types.ReadCounts;

/**
 * A read of slices that is under way. Whoever began it closes it, before its {@link MessageSource}.
 * It lends the memory of one batch at a time: the next call takes it back. Thread-safe: one call at
 * a time.
 */
public interface MessageScan extends AutoCloseable {
  /** The values are wanted as readers see them: payloads. */
  int VALUES = 1;

  /** The serial of each message is wanted. */
  int SERIALS = 2;

  /** The MQTT properties are wanted, and with them the values. */
  int PROPERTIES = 4;

  /** The topics are wanted. Without this number, batches may have empty topics. */
  int TOPICS = 8;

  /**
   * Returns the next messages, or null at the end. What was returned before is no longer there.
   *
   * @param rowsMax the most messages
   * @param bytesMax the most bytes of them, but at least one message
   * @throws TopicDbException with the error of the core or of the server
   */
  Batch next(int rowsMax, long bytesMax);

  /** Returns what it has read so far. Scans of servers do not count it. */
  default ReadCounts counts() {
    return ReadCounts.NONE;
  }

  /** Closes it. May be repeated. */
  @Override
  void close();
}
