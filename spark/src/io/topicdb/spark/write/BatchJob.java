package io.topicdb.spark.write;

import io.topicdb.spark.select.WriteOptions;
import java.util.List;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The write of a batch, which is one job. Lives on the driver as long as the job. */
final class BatchJob implements BatchWrite {
  private final WriteOptions options;
  private final RowColumns columns;
  private final String job = Commits.newJob();

  BatchJob(WriteOptions options, RowColumns columns) {
    this.options = options;
    this.columns = columns;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new StagingWriterFactory(options, columns, job);
  }

  /** No task asks whether it may commit: only the attempts that Spark names here count. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    Commits.commit(messages, options, "", 0);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    Commits.abort(List.of(job), options);
  }
}
