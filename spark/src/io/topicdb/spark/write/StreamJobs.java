package io.topicdb.spark.write;

import io.topicdb.spark.select.WriteOptions;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/**
 * The writes of a streaming query. A micro-batch is the job with the number batch id + 1 of the
 * sequence that has the name of the query's id, so that one that Spark repeats is stored once. The
 * source in Python counts the same, so that a query may change from one to the other. Lives on the
 * driver.
 */
final class StreamJobs implements StreamingWrite {
  private final WriteOptions options;
  private final RowColumns columns;
  private final String sequence;

  StreamJobs(WriteOptions options, RowColumns columns, String queryId) {
    this.options = options;
    this.columns = columns;
    sequence = queryId.replaceAll("[^A-Za-z0-9_-]", "-");
  }

  /** Each attempt at a micro-batch is a job of its own. */
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new StagingWriterFactory(options, columns, Commits.newJob());
  }

  /** No task asks whether it may commit: only the attempts that Spark names here count. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(long batchId, WriterCommitMessage[] messages) {
    Commits.commit(messages, options, sequence, batchId + 1);
  }

  @Override
  public void abort(long batchId, WriterCommitMessage[] messages) {
    Commits.abort(Commits.of(messages).stream().map(TaskDone::job).distinct().toList(), options);
  }
}
