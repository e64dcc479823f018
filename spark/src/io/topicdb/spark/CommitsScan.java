package io.topicdb.spark;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.stream.CommitsPartition;
import io.topicdb.spark.types.Extent;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Begins the scans of the commits of tasks. Has no state. */
final class CommitsScan {
  private CommitsScan() {}

  /** Returns the scan. Throws TopicDbException if something of it is not there. */
  static MessageScan of(LogSource source, Query query, CommitsPartition partition) {
    Extent extent = source.extent(query.selection().filters());
    int shard = partition.shard();
    if (extent.serials().getOrDefault(shard, 0L) < partition.until()) {
      throw new TopicDbException(
          "StorageError",
          "shard " + shard + " of " + query.options().place() + " ends before commit "
              + partition.until() + ", which the query has planned to read: was the database"
              + " replaced, or restored from a copy?");
    }
    if (query.options().failsOnDataLoss()) {
      Losses.check(
          partition.slabs().stream()
              .filter(slab -> !extent.slabs().contains(slab))
              .collect(Collectors.toSet()),
          query.options().place());
    }
    return source.tail(
        query.selection().filters(),
        only(shard, partition.after(), extent),
        only(shard, partition.until(), extent),
        query.wanted());
  }

  /** Returns a serial of one shard. A server has others, of which nothing is to be read. */
  private static Map<Integer, Long> only(int shard, long serial, Extent extent) {
    Map<Integer, Long> serials = new HashMap<>();
    extent.serials().keySet().forEach(other -> serials.put(other, 0L));
    serials.put(shard, serial);
    return serials;
  }
}
