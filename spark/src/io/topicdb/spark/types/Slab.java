package io.topicdb.spark.types;

import java.io.Serializable;
import java.util.Comparator;

/**
 * Names a generation of a retention class in a shard. Immutable.
 *
 * @param retentionClass the topic filter of the class
 */
public record Slab(int shard, String retentionClass, int generation)
    implements Comparable<Slab>, Serializable {
  private static final Comparator<Slab> ORDER =
      Comparator.comparingInt(Slab::shard)
          .thenComparing(Slab::retentionClass)
          .thenComparingInt(Slab::generation);

  @Override
  public int compareTo(Slab other) {
    return ORDER.compare(this, other);
  }
}
