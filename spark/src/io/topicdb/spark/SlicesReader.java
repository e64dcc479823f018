package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.Slab;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.SliceScan;
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

  private final Metrics.Counts counts = new Metrics.Counts();
  private final MessageVectors vectors;
  private final Database database;
  private SliceScan scan;
  private int rowsLeft;

  SlicesReader(Query query, SlicesPartition partition) {
    vectors = new MessageVectors(query, partition.shard());
    rowsLeft = query.limit();
    database = partition.place().openShard(partition.shard());
    try {
      List<Slice> slices = stored(query, partition);
      scan = database.scan(query.selection().filters(), slices, wantedBy(query));
    } catch (RuntimeException | Error error) {
      database.close();
      throw error;
    }
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
    return counts.values();
  }

  @Override
  public void close() {
    try {
      scan.close();
    } finally {
      database.close();
    }
  }

  /** Returns the slices whose slabs are still there, or names one that is not. */
  private List<Slice> stored(Query query, SlicesPartition partition) {
    Set<Slab> slabs = database.slabs();
    TreeSet<Slab> missing = new TreeSet<>();
    for (Slice slice : partition.slices()) {
      if (!slabs.contains(slice.slab())) {
        missing.add(slice.slab());
      }
    }
    if (!missing.isEmpty() && query.options().failsOnDataLoss()) {
      throw new TopicDbException("NotFoundError", describe(missing, query.options().path()));
    }
    return partition.slices().stream().filter(one -> slabs.contains(one.slab())).toList();
  }

  private static String describe(TreeSet<Slab> missing, String path) {
    Slab first = missing.first();
    String more = missing.size() > 1 ? ", and " + (missing.size() - 1) + " more" : "";
    return "generation " + first.generation() + " of class '" + first.retentionClass()
        + "' of shard " + first.shard() + " of " + path + more
        + " was dropped before it was read; failOnDataLoss=false goes on without it";
  }

  private static int wantedBy(Query query) {
    int wanted = query.wants(Columns.VALUE) ? SliceScan.VALUES : 0;
    wanted |= query.wants(Columns.SERIAL) ? SliceScan.SERIALS : 0;
    return wanted | (query.wantsProperties() ? SliceScan.PROPERTIES : 0);
  }
}
