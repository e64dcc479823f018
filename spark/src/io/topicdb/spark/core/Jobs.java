package io.topicdb.spark.core;

import java.nio.charset.StandardCharsets;
import java.util.List;

/** Commits and aborts jobs, on the driver (docs/concepts/jobs.md). Any thread may call it. */
public final class Jobs {
  private static final long SECOND_US = 1_000_000;

  private Jobs() {}

  /** Returns whether the database shards by key. Throws TopicDbException if there is none. */
  public static boolean shardsByKey(String path) {
    return Native.shardsByKey(utf8(path));
  }

  /**
   * Makes what the tasks of a job have staged part of the database, all of it or nothing. Returns
   * the shards that another process has open and that have still to apply it.
   *
   * @param sequence the name of the jobs that follow each other, empty for none
   * @param number the number of the job in its sequence from 1, or 0: one that was committed before
   *     stores nothing
   */
  public static long[] commit(
      String path,
      String job,
      List<Staged> tasks,
      String sequence,
      long number,
      long timeoutSeconds) {
    byte[][] files =
        tasks.stream()
            .map(Staged::file)
            .filter(file -> !file.isEmpty())
            .map(Jobs::utf8)
            .toArray(byte[][]::new);
    long malformed = tasks.stream().mapToLong(Staged::malformed).sum();
    return Native.commitJob(
        utf8(path),
        utf8(job),
        files,
        utf8(sequence),
        number,
        malformed,
        timeoutSeconds * SECOND_US);
  }

  /** Removes what a job has staged, unless it is committed. */
  public static void abort(String path, String job) {
    Native.abortJob(utf8(path), utf8(job));
  }

  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
