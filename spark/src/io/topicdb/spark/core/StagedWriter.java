package io.topicdb.spark.core;

import java.nio.charset.StandardCharsets;

/**
 * Stages the messages of one attempt of one task, in files beside the shards. Whoever opens it owns
 * it and closes it: unless {@link #finish} succeeded, that removes the files. Thread-safe: one call
 * at a time.
 */
public final class StagedWriter implements AutoCloseable {
  private long handle;

  /** Begins an attempt. Throws TopicDbException. */
  public StagedWriter(String path, String job, boolean dropsMalformed) {
    handle = Native.stage(Jobs.utf8(path), Jobs.utf8(job), dropsMalformed);
  }

  /**
   * Stages rows, which are copied. Throws TopicDbException, which names the row, and has staged
   * none of them then.
   *
   * @param addresses as {@link Native#append} wants them
   */
  public synchronized void append(int rows, long[] addresses) {
    Native.append(open(), rows, addresses);
  }

  /** Makes everything durable, and returns what was staged. */
  public synchronized Staged finish() {
    long[] counts = new long[3];
    String file = new String(Native.finish(open(), counts), StandardCharsets.UTF_8);
    return new Staged(file, counts[0], counts[1], counts[2]);
  }

  /** Closes it. May be repeated. */
  @Override
  public synchronized void close() {
    long closing = handle;
    handle = 0;
    if (closing != 0) {
      Native.endStage(closing);
    }
  }

  private long open() {
    if (handle == 0) {
      throw new TopicDbException("ClosedError", "the staged writer is closed");
    }
    return handle;
  }
}
