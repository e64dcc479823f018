package io.topicdb.spark.core;

import io.topicdb.spark.types.Slab;
import java.io.Serializable;

/**
 * A part of a slab, as the core cuts it: the messages of its commits after {@code after}, up to and
 * including {@code until}, in a range of times. Immutable; goes from the driver to a task.
 *
 * @param slab where it is
 * @param start µs since 1970, or {@link #ABSENT}
 * @param end µs since 1970, which is not in it, or {@link #ABSENT}
 * @param messages about how many there are
 * @param bytes about how many the topics and values have
 * @param layout the number of the layout of the slab
 */
public record Slice(
    Slab slab, long after, long until, long start, long end, long messages, long bytes, long layout)
    implements Serializable {
  /** Stands for a bound that is absent. */
  public static final long ABSENT = Long.MIN_VALUE;

  /** How many numbers the native code has for a slice. */
  static final int NUMBERS = 9;

  static Slice of(String retentionClass, long[] numbers, int at) {
    return new Slice(
        new Slab((int) numbers[at], retentionClass, (int) numbers[at + 1]),
        numbers[at + 2],
        numbers[at + 3],
        numbers[at + 4],
        numbers[at + 5],
        numbers[at + 6],
        numbers[at + 7],
        numbers[at + 8]);
  }

  void put(long[] numbers, int at) {
    long[] mine = {slab.shard(), slab.generation(), after, until, start, end, messages, bytes, layout};
    System.arraycopy(mine, 0, numbers, at, NUMBERS);
  }
}
