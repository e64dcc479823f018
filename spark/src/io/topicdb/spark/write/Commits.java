package io.topicdb.spark.write;

import io.topicdb.spark.core.Staging;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.WriteOptions;
import io.topicdb.spark.types.Staged;
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
    long[] pending;
    try (Staging staging = Stagings.open(options)) {
      pending = staging.commit(done.get(0).job(), staged, sequence, number, timeout);
    }
    long malformed = Staging.malformedOf(staged);
    if (malformed > 0) {
      LOGGER.log(
          System.Logger.Level.WARNING,
          options.place() + ": " + malformed + " malformed messages were left out");
    }
    if (pending.length > 0) {
      LOGGER.log(
          System.Logger.Level.WARNING,
          options.place() + ": committed, but shards " + Arrays.toString(pending)
              + " are open elsewhere and were not served within " + timeout + " s");
    }
  }

  /** Removes what jobs have staged. If the server has gone, its next start does that. */
  static void abort(List<String> jobs, WriteOptions options) {
    try (Staging staging = Stagings.open(options)) {
      jobs.forEach(staging::abort);
    } catch (TopicDbException error) {
      if (!error.name().equals("UnavailableError")) {
        throw error;
      }
      LOGGER.log(
          System.Logger.Level.WARNING, "what was staged stays for some hours: " + error.text());
    }
  }
}
