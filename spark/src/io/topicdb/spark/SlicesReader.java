package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.Extent;
import io.topicdb.spark.core.Slab;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.SliceScan;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.stream.CommitsPartition;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the slices or commits of one task. Spark makes it in the task, calls it from the thread of the task,
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
    this(query, partition.shard(), database -> scanOf(database, query, partition));
  }

  private SlicesReader(Query query, int shard, Function<Database, SliceScan> begin) {
    vectors = new MessageVectors(query, shard);
    rowsLeft = query.limit();
    database = Database.openShard(query.options().path(), shard);
    try {
      scan = begin.apply(database);
    } catch (RuntimeException | Error error) {
      database.close();
      throw error;
    }
  }

  /** Returns a reader of commits in their order. */
  static SlicesReader ofCommits(Query query, CommitsPartition partition) {
    return new SlicesReader(
        query, partition.shard(), database -> scanOf(database, query, partition));
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

  /** Begins to read the slices whose slabs are still there. */
  private static SliceScan scanOf(Database database, Query query, SlicesPartition partition) {
    Set<Slab> slabs = database.slabs();
    if (query.options().failsOnDataLoss()) {
      checkStored(partition.slices().stream().map(Slice::slab), slabs, query);
    }
    List<Slice> stored =
        partition.slices().stream().filter(one -> slabs.contains(one.slab())).toList();
    return database.scan(query.selection().filters(), stored, wantedBy(query));
  }

  private static SliceScan scanOf(Database database, Query query, CommitsPartition partition) {
    Extent extent = database.extent();
    int shard = partition.shard();
    if (extent.serials().getOrDefault(shard, 0L) < partition.until()) {
      throw new TopicDbException(
          "StorageError",
          "shard " + shard + " of " + query.options().path() + " ends before commit "
              + partition.until() + ", which the query has planned to read: was the database"
              + " replaced, or restored from a copy?");
    }
    if (query.options().failsOnDataLoss()) {
      checkStored(partition.slabs().stream(), extent.slabs(), query);
    }
    return database.tail(
        query.selection().filters(),
        Map.of(shard, partition.after()),
        Map.of(shard, partition.until()),
        wantedBy(query));
  }

  private static void checkStored(Stream<Slab> wanted, Set<Slab> stored, Query query) {
    Losses.check(
        wanted.filter(slab -> !stored.contains(slab)).collect(Collectors.toSet()),
        query.options().path());
  }

  private static int wantedBy(Query query) {
    int wanted = query.wants(Columns.VALUE) ? SliceScan.VALUES : 0;
    wanted |= query.wants(Columns.SERIAL) ? SliceScan.SERIALS : 0;
    return wanted | (query.wantsProperties() ? SliceScan.PROPERTIES : 0);
  }
}
