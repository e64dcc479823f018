package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.stream.CommitsPartition;
import io.topicdb.spark.vectors.MessageVectors;
import java.util.function.Function;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the slices or commits of one task. Spark makes it in the task, calls it from the thread of
 * the task, and closes it there, also if the task fails or ends early. The batch that it gives lends
 * memory until {@link #next} is called again.
 */
final class SlicesReader implements PartitionReader<ColumnarBatch> {
  private static final int ROWS_MAX = 10_000;
  private static final long BYTES_MAX = 8L << 20;

  private final Metrics.Counts counts = new Metrics.Counts();
  private final MessageVectors vectors;
  private final MessageSource source;
  private final MessageScan scan;
  private int rowsLeft;

  private <T extends MessageSource> SlicesReader(
      Query query, int shard, T source, Function<T, MessageScan> begin) {
    vectors = new MessageVectors(query.columns(), query.wantsProperties(), shard);
    rowsLeft = query.limit();
    this.source = source;
    try {
      scan = begin.apply(source);
    } catch (RuntimeException | Error error) {
      source.close();
      throw error;
    }
  }

  /** Returns a reader of slices, in no order. */
  static SlicesReader ofSlices(Query query, SlicesPartition partition) {
    return new SlicesReader(
        query,
        partition.shard(),
        partition
            .place()
            .openShard(partition.shard(), partition.until(), query.selection().filters()),
        source -> new SlicesScan(source, query, partition));
  }

  /** Returns a reader of commits in their order. */
  static SlicesReader ofCommits(Query query, CommitsPartition partition) {
    return new SlicesReader(
        query,
        partition.shard(),
        partition
            .place()
            .openShard(partition.shard(), partition.until(), query.selection().filters()),
        source -> CommitsScan.of(source, query, partition));
  }

  @Override
  public boolean next() {
    if (rowsLeft == 0) {
      return false;
    }
    Batch batch = scan.next(Math.min(ROWS_MAX, rowsLeft), BYTES_MAX);
    if (batch == null) {
      return false;
    }
    rowsLeft -= batch.rows();
    counts.add(batch.rows(), batch.bytes());
    vectors.show(batch);
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return vectors.batch();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return counts.values(scan.counts());
  }

  @Override
  public void close() {
    try {
      scan.close();
    } finally {
      source.close();
    }
  }
}
