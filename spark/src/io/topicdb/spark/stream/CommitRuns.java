package io.topicdb.spark.stream;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Limits;
import java.util.ArrayList;
import java.util.List;

/** Divides the commits of a micro-batch among tasks, each of which reads them in their order. */
final class CommitRuns {
  private static final long TASK_BYTES_MIN = 64L << 20;

  private CommitRuns() {}

  /**
   * Returns the commits of each task between two offsets.
   *
   * @param tasksMin about the least number of tasks
   */
  static List<CommitsPartition> between(
      Database database, StreamOffset start, StreamOffset end, long tasksMin) {
    long total = 0;
    for (var last : end.serials().entrySet()) {
      int shard = last.getKey();
      if (start.serial(shard) < last.getValue()) {
        total += measure(database, shard, start.serial(shard), last.getValue(), Limits.NONE).bytes();
      }
    }
    Limits share =
        Limits.ofBytes(Math.max(Math.min(total / tasksMin, TASK_BYTES_MIN), 1));
    List<CommitsPartition> runs = new ArrayList<>();
    for (var last : end.serials().entrySet()) {
      int shard = last.getKey();
      long after = start.serial(shard);
      while (after < last.getValue()) {
        CommitSpan span = measure(database, shard, after, last.getValue(), share);
        if (span.messages() > 0) {
          runs.add(
              new CommitsPartition(
                  shard, after, span.until(), Generations.between(start, end, shard)));
        }
        after = span.until();
      }
    }
    return runs;
  }

  private static CommitSpan measure(
      Database database, int shard, long after, long until, Limits limits) {
    return database.measure(shard, null, after, until, null, limits, limits != Limits.NONE);
  }
}
