package io.topicdb.spark.write;

import io.topicdb.spark.core.Staging;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.WriteOptions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Stages the rows of one attempt of one task. Spark makes it in the task, calls it from the thread
 * of the task, and closes it there, also if the task fails. Errors name the partition and the row.
 */
final class StagingWriter implements DataWriter<InternalRow> {
  private final WriteOptions options;
  private final RowColumns columns;
  private final String job;
  private final int partition;
  private final Staging staging;
  private final Staging.TaskWriter writer;
  private final RowBuffer rows;
  private long seen;
  private long leftOut;

  StagingWriter(WriteOptions options, RowColumns columns, String job, int partition) {
    this.options = options;
    this.columns = columns;
    this.job = job;
    this.partition = partition;
    staging = Stagings.open(options);
    try {
      writer = staging.open(job, options.dropsMalformed());
    } catch (RuntimeException | Error error) {
      staging.close();
      throw error;
    }
    rows = new RowBuffer(columns);
  }

  @Override
  public void write(InternalRow row) {
    boolean isIncomplete = row.isNullAt(columns.topic()) || row.isNullAt(columns.value());
    if (isIncomplete && options.dropsMalformed()) {
      leftOut++;
      return;
    }
    rows.add(row);
    if (rows.isFull()) {
      flush();
    }
  }

  @Override
  public WriterCommitMessage commit() {
    flush();
    return new TaskDone(job, writer.finish().withMalformed(leftOut)).toMessage();
  }

  @Override
  public void abort() {} // closing it removes the files

  @Override
  public void close() {
    try (staging; writer) {
      rows.close();
    }
  }

  private void flush() {
    if (rows.size() == 0) {
      return;
    }
    try {
      writer.append(rows.size(), rows.addresses());
    } catch (TopicDbException error) {
      String where = "partition " + partition + ", rows from " + seen;
      throw new TopicDbException(error.name(), where + ": " + error.text());
    }
    seen += rows.size();
    rows.clear();
  }
}
