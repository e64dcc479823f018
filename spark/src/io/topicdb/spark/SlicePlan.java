package io.topicdb.spark;

import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import io.topicdb.spark.select.Top;
import io.topicdb.spark.summary.TopTimes;
import io.topicdb.spark.types.AtLeast;
import io.topicdb.spark.types.Slab;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Divides a read among tasks, as topicdb.spark.slices does: all slices of a task are of one shard,
 * so that it opens only that. Immutable.
 *
 * @param place where the tasks read
 * @param tasks the slices of each task
 */
record SlicePlan(Place place, List<List<Slice>> tasks) {
  private static final long TASK_BYTES_MIN = 64L << 20;
  private static final long TASK_BYTES_MAX = 128L << 20;

  /** The same for tasks that leave values unread, which are most of the bytes. */
  private static final long TASK_BYTES_MAX_WITHOUT_VALUES = 512L << 20;

  /**
   * Plans a read. Its tasks see the database as it is at this moment.
   *
   * @param withValues whether the tasks read values
   */
  static SlicePlan of(Options options, Selection selection, boolean withValues) {
    return of(options, selection, withValues, null);
  }

  /**
   * The same.
   *
   * @param top null unless only the newest or oldest messages are needed
   */
  static SlicePlan of(Options options, Selection all, boolean withValues, Top top) {
    Place place = Place.of(options);
    try (MessageSource source = place.open(options.atLeast(), all.filters())) {
      if (all.isEmpty()) {
        return new SlicePlan(place, List.of());
      }
      Selection selection =
          top == null ? all : new TopTimes(source, options, all, top).narrowed();
      return new SlicePlan(
          place.planned(source, selection.filters()),
          divide(
              bytesMax -> slicesOf(source, options, selection, options.until(), bytesMax),
              options.tasksMin(),
              taskBytesMax(withValues)));
    }
  }

  /**
   * Plans the read again if it needs less than was thought. Returns slices of the same moment: none
   * has a commit that those of this plan have not. Throws TopicDbException, also if a generation of
   * this plan was dropped, unless the options allow that.
   */
  SlicePlan again(Options options, Selection narrowed, boolean withValues) {
    Map<Integer, Long> moment = new HashMap<>();
    Set<Slab> needed = new HashSet<>();
    slices()
        .forEach(
            slice -> {
              moment.merge(slice.slab().shard(), slice.until(), Math::max);
              needed.add(slice.slab());
            });
    try (MessageSource source = place.open(new AtLeast(moment), narrowed.filters())) {
      if (options.failsOnDataLoss()) {
        needed.removeAll(source.slabs(narrowed.filters()));
        Losses.check(needed, options.place());
      }
      if (narrowed.isEmpty()) {
        return new SlicePlan(place, List.of());
      }
      return new SlicePlan(
          place,
          divide(
              bytesMax ->
                  slicesOf(source, options, narrowed, moment, bytesMax).stream()
                      .filter(slice -> moment.containsKey(slice.slab().shard()))
                      .toList(),
              options.tasksMin(),
              taskBytesMax(withValues)));
    }
  }

  /** Returns the slices of all tasks. */
  Stream<Slice> slices() {
    return tasks.stream().flatMap(List::stream);
  }

  InputPartition[] partitions() {
    return tasks.stream()
        .map(slices -> new SlicesPartition(place, slices))
        .toArray(InputPartition[]::new);
  }

  /**
   * Returns the slices of each task of a read with values.
   *
   * @param slicesOf cuts what is to be read into slices of about the bytes that it is given
   * @param tasksMin about the least number of tasks
   */
  static List<List<Slice>> divide(LongFunction<List<Slice>> slicesOf, long tasksMin) {
    return divide(slicesOf, tasksMin, TASK_BYTES_MAX);
  }

  private static List<Slice> slicesOf(
      MessageSource source,
      Options options,
      Selection selection,
      Map<Integer, Long> until,
      long bytesMax) {
    return source.slices(
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
