package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.types.ReadCounts;
import io.topicdb.spark.types.Slab;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/** The scan of those slices of a task whose slabs are still there. Its reader owns it. */
final class SlicesScan implements MessageScan {
  private static final String NOT_FOUND = "NotFoundError";

  private final MessageSource source;
  private final Query query;
  private final SlicesPartition partition;
  private List<Slice> slices;
  private MessageScan scan;
  private boolean hasBegun;

  /** Begins. Throws TopicDbException if a slab is gone, and the query does not go on without it. */
  SlicesScan(MessageSource source, Query query, SlicesPartition partition) {
    this.source = source;
    this.query = query;
    this.partition = partition;
    begin(stored());
  }

  private void begin(List<Slice> kept) {
    slices = kept;
    scan = source.scan(query.selection().filters(), kept, query.wanted());
  }

  private List<Slice> stored() {
    Set<Slab> slabs = source.slabs(query.selection().filters());
    if (query.options().failsOnDataLoss()) {
      Losses.check(
          partition.slices().stream()
              .map(Slice::slab)
              .filter(slab -> !slabs.contains(slab))
              .collect(Collectors.toSet()),
          query.options().place());
    }
    return partition.slices().stream().filter(one -> slabs.contains(one.slab())).toList();
  }

  /**
   * {@inheritDoc}
   *
   * <p>A server may drop a slab between the look at its slabs and the read. The read has not begun
   * then, and begins anew without it.
   */
  @Override
  public synchronized Batch next(int rowsMax, long bytesMax) {
    while (true) {
      try {
        Batch batch = scan.next(rowsMax, bytesMax);
        hasBegun = true;
        return batch;
      } catch (TopicDbException error) {
        boolean mayBeginAnew = !hasBegun && error.name().equals(NOT_FOUND);
        List<Slice> kept = mayBeginAnew ? stored() : slices;
        if (kept.equals(slices)) {
          throw error;
        }
        scan.close();
        begin(kept);
      }
    }
  }

  @Override
  public synchronized ReadCounts counts() {
    return scan.counts();
  }

  @Override
  public synchronized void close() {
    scan.close();
  }
}
