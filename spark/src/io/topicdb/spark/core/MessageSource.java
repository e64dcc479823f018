package io.topicdb.spark.core;

import io.topicdb.spark.types.Extent;
import io.topicdb.spark.types.Grouping;
import io.topicdb.spark.types.Slab;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A database to read slices from: in a directory, or at a server. Whoever opens it closes it, after
 * the scans that it gave. Thread-safe: one call at a time. All methods throw TopicDbException.
 */
public interface MessageSource extends AutoCloseable {
  /**
   * Returns how far it reaches now.
   *
   * @param filters of the reads to come; null stands for every topic
   */
  Extent extent(List<String> filters);

  /**
   * Returns the slabs that are there. A directory tells these faster than the whole extent.
   *
   * @param filters of the reads to come; null stands for every topic
   */
  Set<Slab> slabs(List<String> filters);

  /**
   * Returns slices that together hold each message that matches a filter once.
   *
   * @param filters null stands for every topic
   * @param start µs since 1970, or null
   * @param end µs since 1970, or null
   * @param after by shard: only later commits
   * @param until by shard: only commits up to this one
   * @param bytesMax of a slice, roughly
   */
  List<Slice> slices(
      List<String> filters,
      Long start,
      Long end,
      Map<Integer, Long> after,
      Map<Integer, Long> until,
      long bytesMax);

  /**
   * Returns a scan of slices: each message that matches a filter once, in no order.
   *
   * @param wanted the sum of the numbers of {@link MessageScan}, of all that its batches are to have
   */
  MessageScan scan(List<String> filters, List<Slice> slices, int wanted);

  /**
   * Counts the messages of slices that match a filter, in groups. Reads no more of them than it
   * must. Throws a {@link TopicDbException#VALUE} if there are more groups, or more messages to be
   * read, than allowed. Servers do not count slices.
   *
   * @param grouping what makes a group
   * @param groupsMax the most groups
   * @param rowsMax the most messages that it may read
   */
  Groups summarize(
      List<String> filters, List<Slice> slices, Grouping grouping, long groupsMax, long rowsMax);

  /** Closes it. May be repeated. */
  @Override
  void close();
}
