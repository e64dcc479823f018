package io.topicdb.spark;

import io.topicdb.spark.core.Slice;
import io.topicdb.spark.place.Place;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** The slices of one task, all of one shard. Immutable; goes from the driver to the task. */
record SlicesPartition(Place place, List<Slice> slices) implements InputPartition {
  int shard() {
    return slices.get(0).slab().shard();
  }

  /** Returns the last commit of the shard that it reads. */
  long until() {
    return slices.stream().mapToLong(Slice::until).max().orElse(0);
  }
}
