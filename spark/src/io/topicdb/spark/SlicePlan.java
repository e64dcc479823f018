package io.topicdb.spark;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.Slab;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;

/**
 * Divides a read among tasks, as topicdb.spark.slices does: all slices of a task are of one shard,
 * so that it opens only that.
 */
final class SlicePlan {
  private static final long TASK_BYTES_MIN = 64L << 20;
  private static final long TASK_BYTES_MAX = 128L << 20;

  /** The same for tasks that leave values unread, which are most of the bytes. */
  private static final long TASK_BYTES_MAX_WITHOUT_VALUES = 512L << 20;

  private SlicePlan() {}

  /**
   * Returns the slices of each task. They see the database as it is at this moment.
   *
   * @param withValues whether the tasks read values
   */
  static List<List<Slice>> of(Options options, Selection selection, boolean withValues) {
    try (Database database = Database.open(options.path())) {
      if (selection.isEmpty()) {
        return List.of();
      }
      return divide(
          bytesMax -> slicesOf(database, options, selection, options.until(), bytesMax),
          options.tasksMin(),
          taskBytesMax(withValues));
    }
  }

  /**
   * Plans a read again that needs less than was thought. Returns slices of the same moment: none has
   * a commit that those of the first plan had not. Throws TopicDbException, also if a generation of
   * the first plan was dropped, unless the options allow that.
   */
  static List<List<Slice>> again(
      Options options, Selection narrowed, boolean withValues, List<List<Slice>> first) {
    Map<Integer, Long> moment = new HashMap<>();
    Set<Slab> needed = new HashSet<>();
    for (Slice slice : first.stream().flatMap(List::stream).toList()) {
      moment.merge(slice.slab().shard(), slice.until(), Math::max);
      needed.add(slice.slab());
    }
    try (Database database = Database.open(options.path())) {
      if (options.failsOnDataLoss()) {
        needed.removeAll(database.slabs());
        Losses.check(needed, options.path());
      }
      if (narrowed.isEmpty()) {
        return List.of();
      }
      return divide(
          bytesMax ->
              slicesOf(database, options, narrowed, moment, bytesMax).stream()
                  .filter(slice -> moment.containsKey(slice.slab().shard()))
                  .toList(),
          options.tasksMin(),
          taskBytesMax(withValues));
    }
  }

  private static List<Slice> slicesOf(
      Database database,
      Options options,
      Selection selection,
      Map<Integer, Long> until,
      long bytesMax) {
    return database.slices(
        selection.filters(), selection.start(), selection.end(), options.after(), until, bytesMax);
  }

  private static long taskBytesMax(boolean withValues) {
    return withValues ? TASK_BYTES_MAX : TASK_BYTES_MAX_WITHOUT_VALUES;
  }

  private static List<List<Slice>> divide(
      LongFunction<List<Slice>> slicesOf, long tasksMin, long taskBytesMax) {
    List<Slice> slices = slicesOf.apply(taskBytesMax);
    long total = slices.stream().mapToLong(Slice::bytes).sum();
    long share = total / Runtime.getRuntime().availableProcessors();
    long bytesMax = Math.min(Math.max(share, TASK_BYTES_MIN), taskBytesMax);
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
