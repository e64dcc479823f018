package io.topicdb.spark.core;

/** Groups of messages with their counts, each with at least one message. Immutable. */
public final class Groups {
  /** The numbers of a group: where its topic ends, start of its span, messages, first, last time. */
  private static final int NUMBERS = 5;

  public static final Groups NONE = new Groups(new byte[0], new long[0]);

  private final byte[] topics;
  private final long[] numbers;

  /** Takes over what {@link Native#summarize} returns. */
  Groups(byte[] topics, long[] numbers) {
    this.topics = topics;
    this.numbers = numbers;
  }

  public int size() {
    return numbers.length / NUMBERS;
  }

  /** Returns the bytes of all topics. The caller must not change them. */
  public byte[] topics() {
    return topics;
  }

  /** Returns where the topic of a group begins in the bytes. It ends where the next one begins. */
  public int topicBegin(int group) {
    return group == 0 ? 0 : (int) numbers[(group - 1) * NUMBERS];
  }

  /** Returns the µs since 1970 at which the span of a group begins, if there are spans. */
  public long spanStart(int group) {
    return numbers[group * NUMBERS + 1];
  }

  public long messages(int group) {
    return numbers[group * NUMBERS + 2];
  }

  /** Returns the smallest timestamp, in µs since 1970. */
  public long firstTime(int group) {
    return numbers[group * NUMBERS + 3];
  }

  /** Returns the greatest timestamp, in µs since 1970. */
  public long lastTime(int group) {
    return numbers[group * NUMBERS + 4];
  }
}
