package io.topicdb.spark;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.stream.CommitsPartition;
import io.topicdb.spark.types.Extent;
import java.util.Map;
import java.util.stream.Collectors;

/** Begins the scans of the commits of tasks. Has no state. */
final class CommitsScan {
  private CommitsScan() {}

  /** Returns the scan. Throws TopicDbException if something of it is not there. */
  static MessageScan of(Database database, Query query, CommitsPartition partition) {
    Extent extent = database.extent();
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
    return database.tail(
        query.selection().filters(),
        Map.of(shard, partition.after()),
        Map.of(shard, partition.until()),
        query.wanted());
  }
}
