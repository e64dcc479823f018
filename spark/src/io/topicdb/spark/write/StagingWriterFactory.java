package io.topicdb.spark.write;

import io.topicdb.spark.select.WriteOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** Makes the writer of a task. Immutable; goes from the driver to the tasks. */
record StagingWriterFactory(WriteOptions options, RowColumns columns, String job)
    implements DataWriterFactory, StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task) {
    return new StagingWriter(options, columns, job, partition);
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task, long batchId) {
    return new StagingWriter(options, columns, job, partition);
  }
}
