package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slab;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the slices of one task. Spark makes it in the task, calls it from the thread of the task,
 * and closes it there, also if the task fails or ends early. The batch that it gives lends memory
 * of the core until {@link #next} is called again.
 */
final class SlicesReader implements PartitionReader<ColumnarBatch> {
  private static final int ROWS_MAX = 10_000;
  private static final long BYTES_MAX = 8L << 20;
  private static final String NOT_FOUND = "NotFoundError";

  private final Metrics.Counts counts = new Metrics.Counts();
  private final MessageVectors vectors;
  private final Query query;
  private final SlicesPartition partition;
  private final MessageSource source;
  private List<Slice> slices;
  private MessageScan scan;
  private boolean hasBegun;
  private int rowsLeft;

  SlicesReader(Query query, SlicesPartition partition) {
    this.query = query;
    this.partition = partition;
    vectors = new MessageVectors(query, partition.shard());
    rowsLeft = query.limit();
    source = Sources.toRead(query, partition);
    try {
      begin(stored());
    } catch (RuntimeException | Error error) {
      source.close();
      throw error;
    }
  }

  @Override
  public boolean next() {
    if (rowsLeft == 0) {
      return false;
    }
    Batch batch = hasBegun ? scan.next(Math.min(ROWS_MAX, rowsLeft), BYTES_MAX) : first();
    hasBegun = true;
    if (batch == null) {
      return false;
    }
    rowsLeft -= batch.rows();
    counts.add(batch.rows(), batch.bytes());
    vectors.show(batch);
    return true;
  }

  private void begin(List<Slice> kept) {
    slices = kept;
    scan = source.scan(query.selection().filters(), kept, wantedBy(query));
  }

  /**
   * Reads the first batch. A server may drop a slab between the look at its slabs and the read, which
   * then has not begun.
   */
  private Batch first() {
    while (true) {
      try {
        return scan.next(Math.min(ROWS_MAX, rowsLeft), BYTES_MAX);
      } catch (TopicDbException error) {
        List<Slice> kept = error.name().equals(NOT_FOUND) ? stored() : slices;
        if (kept.equals(slices)) {
          throw error;
        }
        scan.close();
        begin(kept);
      }
    }
  }

  @Override
  public ColumnarBatch get() {
    return vectors.batch();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return counts.values();
  }

  @Override
  public void close() {
    try {
      scan.close();
    } finally {
      source.close();
    }
  }

  /** Returns the slices whose slabs are still there, or names one that is not. */
  private List<Slice> stored() {
    Set<Slab> slabs = source.slabs(query.selection().filters());
    TreeSet<Slab> missing = new TreeSet<>();
    for (Slice slice : partition.slices()) {
      if (!slabs.contains(slice.slab())) {
        missing.add(slice.slab());
      }
    }
    if (!missing.isEmpty() && query.options().failsOnDataLoss()) {
      throw new TopicDbException(NOT_FOUND, describe(missing, query.options().place()));
    }
    return partition.slices().stream().filter(one -> slabs.contains(one.slab())).toList();
  }

  private static String describe(TreeSet<Slab> missing, String place) {
    Slab first = missing.first();
    String more = missing.size() > 1 ? ", and " + (missing.size() - 1) + " more" : "";
    return "generation " + first.generation() + " of class '" + first.retentionClass()
        + "' of shard " + first.shard() + " of " + place + more
        + " was dropped before it was read; failOnDataLoss=false goes on without it";
  }

  private static int wantedBy(Query query) {
    int wanted = query.wants(Columns.VALUE) ? MessageScan.VALUES : 0;
    wanted |= query.wants(Columns.SERIAL) ? MessageScan.SERIALS : 0;
    return wanted | (query.wantsProperties() ? MessageScan.PROPERTIES : 0);
  }
}
