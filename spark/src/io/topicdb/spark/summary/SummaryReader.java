package io.topicdb.spark.summary;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.types.Slab;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;

/**
 * Gives the aggregates of the slices of one task, slice by slice: Spark puts together what belongs
 * to one group. So it keeps only the groups of one slice in memory. Spark makes it in the task,
 * calls it from the thread of the task, and closes it there.
 */
public final class SummaryReader implements PartitionReader<InternalRow> {
  private final Aggregates aggregates;
  private final List<String> filters;
  private final MessageSource source; // null: there are no slices
  private final Deque<Slice> left;
  private InternalRow[] rows = {};
  private int next = -1;

  /**
   * Opens the shard of the slices. Throws TopicDbException, also if a slab of them was dropped,
   * unless the options allow that. Without slices, gives the aggregates of no messages.
   *
   * @param filters null stands for every topic
   * @param slices all of one shard
   */
  public SummaryReader(
      Place place,
      Options options,
      List<String> filters,
      Aggregates aggregates,
      List<Slice> slices) {
    this.aggregates = aggregates;
    this.filters = filters;
    if (slices.isEmpty()) {
      source = null;
      left = new ArrayDeque<>();
    } else {
      long until = slices.stream().mapToLong(Slice::until).max().orElse(0);
      source = place.openShard(slices.get(0).slab().shard(), until, filters);
      left = stored(options, slices);
    }
    if (left.isEmpty()) {
      rows = aggregates.rows(Groups.NONE); // so that a count without keys is zero, and not null
    }
  }

  @Override
  public boolean next() {
    next++;
    while (next >= rows.length) {
      Slice slice = left.poll();
      if (slice == null) {
        return false;
      }
      Groups groups =
          source.summarize(
              filters, List.of(slice), aggregates.grouping(), Long.MAX_VALUE, Long.MAX_VALUE);
      rows = aggregates.rows(groups);
      next = 0;
    }
    return true;
  }

  @Override
  public InternalRow get() {
    return rows[next];
  }

  @Override
  public void close() {
    if (source != null) {
      source.close();
    }
  }

  /** Returns the slices whose slabs are still there. */
  private Deque<Slice> stored(Options options, List<Slice> slices) {
    try {
      Set<Slab> slabs = source.slabs(filters);
      if (options.failsOnDataLoss()) {
        List<Slab> needed = slices.stream().map(Slice::slab).distinct().toList();
        List<Slab> missing = needed.stream().filter(slab -> !slabs.contains(slab)).toList();
        Losses.check(missing, options.place());
      }
      return new ArrayDeque<>(
          slices.stream().filter(slice -> slabs.contains(slice.slab())).toList());
    } catch (RuntimeException | Error error) {
      source.close();
      throw error;
    }
  }
}
