package io.topicdb.spark.types;

import java.io.Serializable;

/**
 * Says which messages {@link Database#summarize} counts together. Immutable; goes from the driver to
 * the tasks.
 *
 * @param levels messages whose topics begin with the same levels, this many: 0 for all topics
 *     together, {@link #ALL_LEVELS} for each topic alone
 * @param span messages of one span of this many µs, counted from 1970, or {@link Slice#ABSENT}
 */
public record Grouping(int levels, long span) implements Serializable {
  public static final int ALL_LEVELS = -1;
}
