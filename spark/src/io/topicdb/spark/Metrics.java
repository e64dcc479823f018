package io.topicdb.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark's UI shows of a read: sums over the tasks. */
public final class Metrics {
  private static final String MESSAGES = "topicdbMessages";
  private static final String BYTES = "topicdbBytes";
  private static final String BATCHES = "topicdbBatches";

  private Metrics() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {new Messages(), new Bytes(), new Batches()};
  }

  /** The number of messages. Spark makes it by its name. */
  public static final class Messages extends CustomSumMetric {
    @Override
    public String name() {
      return MESSAGES;
    }

    @Override
    public String description() {
      return "messages read";
    }
  }

  /** The bytes of their topics and values. Spark makes it by its name. */
  public static final class Bytes extends CustomSumMetric {
    @Override
    public String name() {
      return BYTES;
    }

    @Override
    public String description() {
      return "bytes of messages read";
    }
  }

  /** The number of batches. Spark makes it by its name. */
  public static final class Batches extends CustomSumMetric {
    @Override
    public String name() {
      return BATCHES;
    }

    @Override
    public String description() {
      return "batches read";
    }
  }

  /** Counts what one task reads. Its reader owns it. Not thread-safe. */
  static final class Counts {
    private long messages;
    private long bytes;
    private long batches;

    void add(long moreMessages, long moreBytes) {
      messages += moreMessages;
      bytes += moreBytes;
      batches++;
    }

    CustomTaskMetric[] values() {
      return new CustomTaskMetric[] {
        new Value(MESSAGES, messages), new Value(BYTES, bytes), new Value(BATCHES, batches)
      };
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
