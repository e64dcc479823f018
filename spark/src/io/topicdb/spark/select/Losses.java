package io.topicdb.spark.select;

import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.types.Slab;
import java.util.Collection;
import java.util.TreeSet;

/** Names generations that were dropped before they were read, as topicdb.spark.options does. */
public final class Losses {
  private Losses() {}

  /** Throws TopicDbException if there are such generations. */
  public static void check(Collection<Slab> missing, String path) {
    if (missing.isEmpty()) {
      return;
    }
    Slab first = new TreeSet<>(missing).first();
    String more = missing.size() > 1 ? ", and " + (missing.size() - 1) + " more" : "";
    throw new TopicDbException(
        "NotFoundError",
        "generation " + first.generation() + " of class '" + first.retentionClass()
            + "' of shard " + first.shard() + " of " + path + more
            + " was dropped before it was read; failOnDataLoss=false goes on without it");
  }
}
