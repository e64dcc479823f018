package io.topicdb.spark;

import io.topicdb.spark.core.Slice;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The slices of one task, all of one shard. Immutable; goes from the driver to the task.
 *
 * @param database the id of the database at servers; empty for a directory
 */
record SlicesPartition(String database, List<Slice> slices) implements InputPartition {
  /** Returns the slices of a task that reads a directory. */
  static SlicesPartition ofDirectory(List<Slice> slices) {
    return new SlicesPartition("", slices);
  }

  int shard() {
    return slices.get(0).slab().shard();
  }

  /** Returns the last commit of the shard that it reads. */
  long until() {
    return slices.stream().mapToLong(Slice::until).max().orElse(0);
  }
}
