package io.topicdb.spark.core;

import io.topicdb.spark.types.Staged;
import java.nio.charset.StandardCharsets;

/** Stages in files beside the shards. {@link Directory#open} makes it. */
final class StagedWriter implements Staging.TaskWriter {
  private long handle;

  /** Begins an attempt. Throws TopicDbException. */
  StagedWriter(String path, String job, boolean dropsMalformed) {
    handle = Native.stage(Directory.utf8(path), Directory.utf8(job), dropsMalformed);
  }

  @Override
  public synchronized void append(int rows, long[] addresses) {
    Native.append(open(), rows, addresses);
  }

  @Override
  public synchronized Staged finish() {
    long[] counts = new long[3];
    String file = new String(Native.finish(open(), counts), StandardCharsets.UTF_8);
    return new Staged(file, counts[0], counts[1], counts[2]);
  }

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
