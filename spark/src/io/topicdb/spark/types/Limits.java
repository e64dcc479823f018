package io.topicdb.spark.types;

/** The most messages, and the most bytes of their topics and values. Immutable. */
public record Limits(long messages, long bytes) {
  public static final Limits NONE = new Limits(Long.MAX_VALUE, Long.MAX_VALUE);

  public static Limits ofMessages(long messages) {
    return new Limits(messages, Long.MAX_VALUE);
  }

  public static Limits ofBytes(long bytes) {
    return new Limits(Long.MAX_VALUE, bytes);
  }
}
