package io.topicdb.spark.core;

import io.topicdb.spark.types.AtLeast;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Limits;
import java.util.List;
import java.util.Map;

/**
 * A database whose messages can also be read in the order of their commits: for streams. Rules as
 * for {@link MessageSource}.
 */
public interface LogSource extends MessageSource {
  /** Lets it show what was written since. */
  void refresh();

  /**
   * Waits until its reads see what they must. Throws a StaleError or NoQuorumError if they do not in
   * time.
   *
   * @param filters of the reads to come; null stands for every topic
   */
  void see(AtLeast needs, List<String> filters);

  /**
   * Returns a scan of commits: each message that matches a filter once, in each shard in the order
   * of commits. Throws TopicDbException if some of them, or of those to come, are in a generation
   * that keeps no commit log.
   *
   * @param after by shard: only later commits
   * @param until by shard: only commits up to this one; a scan waits for more where there is none
   */
  MessageScan tail(
      List<String> filters, Map<Integer, Long> after, Map<Integer, Long> until, int wanted);

  /**
   * Returns how far commits of a shard go within limits, but at least one commit with messages that
   * match a filter, if there is one.
   *
   * @param after only later commits
   * @param until only commits up to this one, or null
   * @param start messages before this time (µs since 1970) do not count, or null
   * @param isOfBlocks whether it may end earlier, where a block ends, once it has half of the bytes
   */
  CommitSpan measure(
      int shard,
      List<String> filters,
      long after,
      Long until,
      Long start,
      Limits limits,
      boolean isOfBlocks);
}
