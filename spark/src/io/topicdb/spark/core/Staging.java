package io.topicdb.spark.core;

import io.topicdb.spark.types.Staged;
import java.util.List;

/**
 * How messages are staged for a database, and jobs committed (docs/concepts/jobs.md). Whoever opens
 * it closes it, after the writers that it gave. Thread-safe. All methods throw TopicDbException.
 */
public interface Staging extends AutoCloseable {
  /** Throws AccessError if the caller may not write. */
  void check();

  /** Returns whether the database shards by key. */
  boolean shardsByKey();

  /** Begins an attempt of a task. */
  TaskWriter open(String job, boolean dropsMalformed);

  /**
   * Makes what the tasks of a job have staged part of the database, all of it or nothing. Returns
   * the shards that another process has open and that have still to apply it.
   *
   * @param sequence the name of the jobs that follow each other, empty for none
   * @param number the number of the job in its sequence from 1, or 0: one that was committed before
   *     stores nothing
   * @param timeoutSeconds how long to wait for other processes
   */
  long[] commit(String job, List<Staged> tasks, String sequence, long number, long timeoutSeconds);

  /** Removes what a job has staged, unless it is committed. */
  void abort(String job);

  /** Closes it. May be repeated. */
  @Override
  void close();

  /**
   * Stages the messages of one attempt of one task. Whoever opens it closes it: unless {@link
   * #finish} succeeded, that removes what was staged. Thread-safe: one call at a time.
   */
  interface TaskWriter extends AutoCloseable {
    /**
     * Stages rows, which are copied. Throws TopicDbException, which names the row, and has staged
     * none of them then.
     *
     * @param addresses as {@link Native#append} wants them
     */
    void append(int rows, long[] addresses);

    /** Makes everything durable, and returns what was staged. */
    Staged finish();

    /** Closes it. May be repeated. */
    @Override
    void close();
  }

  /** Returns the names of the files that tasks have staged. */
  static List<String> filesOf(List<Staged> tasks) {
    return tasks.stream().map(Staged::file).filter(file -> !file.isEmpty()).toList();
  }

  /** Returns how many rows tasks have left out. */
  static long malformedOf(List<Staged> tasks) {
    return tasks.stream().mapToLong(Staged::malformed).sum();
  }
}
