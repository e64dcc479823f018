package io.topicdb.spark.write;

import io.topicdb.spark.core.Jobs;
import io.topicdb.spark.core.Staged;
import io.topicdb.spark.select.WriteOptions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Commits what tasks have staged, on the driver. */
final class Commits {
  private static final System.Logger LOGGER = System.getLogger("topicdb.spark");

  private Commits() {}

  /** Returns a name that no other job has. */
  static String newJob() {
    return "spark-" + UUID.randomUUID().toString().replace("-", "");
  }

  /** Returns the messages of the tasks that have ended: Spark gives null for others. */
  static List<TaskDone> of(WriterCommitMessage[] messages) {
    List<TaskDone> done = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      if (message != null) {
        done.add(TaskDone.of(message));
      }
    }
    return done;
  }

  /** Commits one job. Writes to the log what was left out, and which shards have still to follow. */
  static void commit(
      WriterCommitMessage[] messages, WriteOptions options, String sequence, long number) {
    List<TaskDone> done = of(messages);
    if (done.isEmpty()) {
      return;
    }
    List<Staged> staged = done.stream().map(TaskDone::staged).toList();
    long timeout = options.commitTimeoutSeconds();
    long[] pending =
        Jobs.commit(options.path(), done.get(0).job(), staged, sequence, number, timeout);
    long malformed = staged.stream().mapToLong(Staged::malformed).sum();
    if (malformed > 0) {
      LOGGER.log(
          System.Logger.Level.WARNING,
          options.path() + ": " + malformed + " malformed messages were left out");
    }
    if (pending.length > 0) {
      LOGGER.log(
          System.Logger.Level.WARNING,
          options.path() + ": committed, but shards " + Arrays.toString(pending)
              + " are open elsewhere and were not served within " + timeout + " s");
    }
  }
}
