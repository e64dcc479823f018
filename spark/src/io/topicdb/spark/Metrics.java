package io.topicdb.spark;

import io.topicdb.spark.types.ReadCounts;
import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark's UI shows of a read: sums over the tasks, and the most memory of a task. */
public final class Metrics {
  private static final String MESSAGES = "topicdbMessages";
  private static final String BYTES = "topicdbBytes";
  private static final String BATCHES = "topicdbBatches";
  private static final String BATCH_BYTES_MAX = "topicdbBatchBytesMax";
  private static final String BLOCKS = "topicdbBlocks";
  private static final String BLOCKS_SKIPPED = "topicdbBlocksSkipped";
  private static final String PAGES = "topicdbPages";
  private static final String PAGES_SKIPPED = "topicdbPagesSkipped";
  private static final String EXAMINED = "topicdbExamined";
  private static final String STORED_BYTES = "topicdbStoredBytes";

  private Metrics() {}

  /** Returns all of them, and makes sure that Spark can make them anew. */
  static CustomMetric[] all() {
    MetricListener.teach(Messages.class);
    return new CustomMetric[] {
      new Messages(),
      new Bytes(),
      new Batches(),
      new BatchBytesMax(),
      new Blocks(),
      new BlocksSkipped(),
      new Pages(),
      new PagesSkipped(),
      new Examined(),
      new StoredBytes()
    };
  }

  // Spark makes each of these by its name, in a JVM that has only the numbers.

  /** The number of messages. */
  public static final class Messages extends Sum {
    public Messages() {
      super(MESSAGES, "messages read");
    }
  }

  /** The bytes of their topics and values. */
  public static final class Bytes extends Sum {
    public Bytes() {
      super(BYTES, "bytes of messages read");
    }
  }

  /** The number of batches. */
  public static final class Batches extends Sum {
    public Batches() {
      super(BATCHES, "batches read");
    }
  }

  /** Blocks that were considered. */
  public static final class Blocks extends Sum {
    public Blocks() {
      super(BLOCKS, "blocks considered");
    }
  }

  /** Those of them that cannot have wanted messages. */
  public static final class BlocksSkipped extends Sum {
    public BlocksSkipped() {
      super(BLOCKS_SKIPPED, "blocks skipped");
    }
  }

  /** Pages that were read. */
  public static final class Pages extends Sum {
    public Pages() {
      super(PAGES, "pages read");
    }
  }

  /** Other pages of the blocks that were not skipped. */
  public static final class PagesSkipped extends Sum {
    public PagesSkipped() {
      super(PAGES_SKIPPED, "pages skipped");
    }
  }

  /** The messages of the pages that were read, wanted or not. */
  public static final class Examined extends Sum {
    public Examined() {
      super(EXAMINED, "messages examined");
    }
  }

  /** The bytes of these pages, as they are stored. */
  public static final class StoredBytes extends Sum {
    public StoredBytes() {
      super(STORED_BYTES, "stored bytes read");
    }
  }

  /** The largest batch that a task has lent to Spark. */
  public static final class BatchBytesMax implements CustomMetric {
    @Override
    public String name() {
      return BATCH_BYTES_MAX;
    }

    @Override
    public String description() {
      return "bytes of the largest batch";
    }

    @Override
    public String aggregateTaskMetrics(long[] bytes) {
      return Long.toString(Arrays.stream(bytes).max().orElse(0));
    }
  }

  /** A sum over the tasks. */
  private abstract static class Sum extends CustomSumMetric {
    private final String name;
    private final String description;

    Sum(String name, String description) {
      this.name = name;
      this.description = description;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String description() {
      return description;
    }
  }

  /** Counts what one task reads. Its reader owns it. Not thread-safe. */
  static final class Counts {
    private long messages;
    private long bytes;
    private long batches;
    private long batchBytesMax;

    void add(long moreMessages, long moreBytes) {
      messages += moreMessages;
      bytes += moreBytes;
      batches++;
      batchBytesMax = Math.max(batchBytesMax, moreBytes);
    }

    /**
     * @param read what the scan has read
     */
    CustomTaskMetric[] values(ReadCounts read) {
      return new CustomTaskMetric[] {
        new Value(MESSAGES, messages),
        new Value(BYTES, bytes),
        new Value(BATCHES, batches),
        new Value(BATCH_BYTES_MAX, batchBytesMax),
        new Value(BLOCKS, read.blocks()),
        new Value(BLOCKS_SKIPPED, read.blocksSkipped()),
        new Value(PAGES, read.pages()),
        new Value(PAGES_SKIPPED, read.pagesSkipped()),
        new Value(EXAMINED, read.examined()),
        new Value(STORED_BYTES, read.bytes())
      };
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
