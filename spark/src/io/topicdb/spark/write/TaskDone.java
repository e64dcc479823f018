package io.topicdb.spark.write;

import io.topicdb.spark.types.Staged;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;

/**
 * What a task tells the commit on the driver. Immutable.
 *
 * <p>It travels as a message that Spark has itself. Spark reads messages with a class loader that
 * may not know the connector, or has another copy of its classes, if a session has added the JAR.
 */
record TaskDone(String job, Staged staged) {
  /** Returns it as a message: of nothing but classes of Java and Spark. */
  WriterCommitMessage message() {
    Object[] fields = {job, staged.file(), staged.messages(), staged.bytes(), staged.malformed()};
    return new WriteTaskResult(new TaskCommitMessage(fields), null);
  }

  /** Returns what a message says. */
  static TaskDone of(WriterCommitMessage message) {
    Object[] fields = (Object[]) ((WriteTaskResult) message).commitMsg().obj();
    Staged staged =
        new Staged((String) fields[1], (Long) fields[2], (Long) fields[3], (Long) fields[4]);
    return new TaskDone((String) fields[0], staged);
  }
}
