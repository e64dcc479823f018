package io.topicdb.spark.types;

import java.io.Serializable;
import java.util.Map;

/**
 * What a read must see. Immutable.
 *
 * @param serials by shard: the commits up to this one; null: all that was acknowledged before
 */
public record AtLeast(Map<Integer, Long> serials) implements Serializable {
  public static final AtLeast NOTHING = new AtLeast(Map.of());
  public static final AtLeast ACKNOWLEDGED = new AtLeast(null);

  /** How long a read waits for it. */
  public static final long WAIT_MILLIS = 10_000;

  /** Returns whether a read need not wait. */
  public boolean isNothing() {
    return serials != null && serials.isEmpty();
  }
}
