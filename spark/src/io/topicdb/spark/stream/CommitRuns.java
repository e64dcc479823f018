package io.topicdb.spark.stream;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Limits;
import java.util.ArrayList;
import java.util.List;

/**
 * Divides the commits of a micro-batch among tasks, each of which reads them in their order. Lives
 * as long as that takes. Not thread-safe.
 */
final class CommitRuns {
  private static final long TASK_BYTES_MIN = 64L << 20;

  private final LogSource source;
  private final List<String> filters;
  private final Place place;

  /**
   * Begins.
   *
   * @param source the database
   * @param filters of the messages that count; null stands for every topic
   * @param place where the tasks read
   */
  CommitRuns(LogSource source, List<String> filters, Place place) {
    this.source = source;
    this.filters = filters;
    this.place = place;
  }

  /**
   * Returns the commits of each task between two offsets.
   *
   * @param tasksMin about the least number of tasks
   */
  List<CommitsPartition> between(StreamOffset start, StreamOffset end, long tasksMin) {
    long total = 0;
    for (var last : end.serials().entrySet()) {
      int shard = last.getKey();
      if (start.serial(shard) < last.getValue()) {
        total += measure(shard, start.serial(shard), last.getValue(), Limits.NONE).bytes();
      }
    }
    Limits share =
        Limits.ofBytes(Math.max(Math.min(total / tasksMin, TASK_BYTES_MIN), 1));
    List<CommitsPartition> runs = new ArrayList<>();
    for (var last : end.serials().entrySet()) {
      int shard = last.getKey();
      long after = start.serial(shard);
      while (after < last.getValue()) {
        CommitSpan span = measure(shard, after, last.getValue(), share);
        if (span.messages() > 0) {
          runs.add(
              new CommitsPartition(
                  place, shard, after, span.until(), Generations.between(start, end, shard)));
        }
        after = span.until();
      }
    }
    return runs;
  }

  private CommitSpan measure(int shard, long after, long until, Limits limits) {
    return source.measure(shard, filters, after, until, null, limits, limits != Limits.NONE);
  }
}
