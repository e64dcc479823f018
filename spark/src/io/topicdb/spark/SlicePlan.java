package io.topicdb.spark;

import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Divides a read among tasks, as topicdb.spark.slices does: all slices of a task are of one shard,
 * so that it opens only that.
 */
final class SlicePlan {
  private static final long TASK_BYTES_MIN = 64L << 20;
  private static final long TASK_BYTES_MAX = 128L << 20;

  private SlicePlan() {}

  /** Returns the partitions. Their tasks see the database as it is at this moment. */
  static InputPartition[] of(Options options, Selection selection) {
    Place place = Place.of(options);
    try (MessageSource source = place.open()) {
      if (selection.isEmpty()) {
        return new InputPartition[0];
      }
      Place planned = place.planned(source, selection.filters());
      List<List<Slice>> tasks =
          divide(
              bytesMax ->
                  source.slices(
                      selection.filters(),
                      selection.start(),
                      selection.end(),
                      options.after(),
                      options.until(),
                      bytesMax),
              options.tasksMin());
      return tasks.stream()
          .map(slices -> new SlicesPartition(planned, slices))
          .toArray(InputPartition[]::new);
    }
  }

  /**
   * Returns the slices of each task.
   *
   * @param slicesOf cuts what is to be read into slices of about the bytes that it is given
   * @param tasksMin about the least number of tasks
   */
  static List<List<Slice>> divide(LongFunction<List<Slice>> slicesOf, long tasksMin) {
    List<Slice> slices = slicesOf.apply(TASK_BYTES_MAX);
    long total = slices.stream().mapToLong(Slice::bytes).sum();
    long share = total / Runtime.getRuntime().availableProcessors();
    long bytesMax = Math.min(Math.max(share, TASK_BYTES_MIN), TASK_BYTES_MAX);
    if (tasksMin > 1) {
      bytesMax = Math.max(Math.min(bytesMax, total / tasksMin), 1);
    }
    long allowed = bytesMax;
    if (slices.stream().anyMatch(slice -> slice.bytes() > allowed)) {
      slices = slicesOf.apply(bytesMax);
    }
    return pack(slices, bytesMax);
  }

  /** Returns slices by task: neighbours of one shard, with at most these bytes if there are many. */
  private static List<List<Slice>> pack(List<Slice> slices, long bytesMax) {
    List<List<Slice>> tasks = new ArrayList<>();
    List<Slice> task = List.of();
    long size = 0;
    for (Slice slice : slices) {
      boolean isOther = task.isEmpty() || task.get(0).slab().shard() != slice.slab().shard();
      if (isOther || size + slice.bytes() > bytesMax) {
        task = new ArrayList<>();
        tasks.add(task);
        size = 0;
      }
      task.add(slice);
      size += slice.bytes();
    }
    return tasks;
  }
}
