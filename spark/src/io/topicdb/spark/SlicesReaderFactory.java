package io.topicdb.spark;

import io.topicdb.spark.stream.CommitsPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the reader of a task. Immutable; goes from the driver to the tasks. */
record SlicesReaderFactory(Query query) implements PartitionReaderFactory {
  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return partition instanceof CommitsPartition commits
        ? SlicesReader.ofCommits(query, commits)
        : SlicesReader.ofSlices(query, (SlicesPartition) partition);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("the reader gives columns only");
  }
}
