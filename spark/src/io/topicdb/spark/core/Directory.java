package io.topicdb.spark.core;

import io.topicdb.spark.types.Staged;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Stages beside the shards of a database in a directory, and commits there. Immutable. */
public record Directory(String path) implements Staging {
  private static final long SECOND_US = 1_000_000;

  /** Returns: everybody may try. */
  @Override
  public void check() {}

  @Override
  public boolean shardsByKey() {
    return Native.shardsByKey(utf8(path));
  }

  @Override
  public TaskWriter open(String job, boolean dropsMalformed) {
    return new StagedWriter(path, job, dropsMalformed);
  }

  @Override
  public long[] commit(
      String job, List<Staged> tasks, String sequence, long number, long timeoutSeconds) {
    return Native.commitJob(
        utf8(path),
        utf8(job),
        Staging.filesOf(tasks).stream().map(Directory::utf8).toArray(byte[][]::new),
        utf8(sequence),
        number,
        Staging.malformedOf(tasks),
        timeoutSeconds * SECOND_US);
  }

  @Override
  public void abort(String job) {
    Native.abortJob(utf8(path), utf8(job));
  }

  @Override
  public void close() {} // it has nothing open

  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
