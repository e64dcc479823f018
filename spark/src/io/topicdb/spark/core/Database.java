package io.topicdb.spark.core;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A handle of a database that is open for reading. Whoever opens it owns it and closes it, after
 * the scans that it gave. Thread-safe: one call at a time.
 */
public final class Database implements AutoCloseable {
  private static final int ALL_SHARDS = -1;
  private long handle;

  private Database(String path, int shard) {
    handle = Native.open(utf8(path), shard);
  }

  /** Opens all shards. Throws TopicDbException. */
  public static Database open(String path) {
    return new Database(path, ALL_SHARDS);
  }

  /** Opens one shard. Throws TopicDbException. */
  public static Database openShard(String path, int shard) {
    return new Database(path, shard);
  }

  /** Throws TopicDbException unless the text is a topic filter. */
  public static void checkFilter(String filter) {
    Native.checkFilter(utf8(filter));
  }

  /** Returns whether the text can be the topic of a message. */
  public static boolean isTopic(String text) {
    try {
      Native.checkTopic(utf8(text));
    } catch (TopicDbException error) {
      if (!error.name().equals(TopicDbException.TOPIC)) {
        throw error;
      }
      return false;
    }
    return true;
  }

  /** Returns the slabs of the open shards. */
  public synchronized Set<Slab> slabs() {
    Object[] found = Native.slabs(open());
    byte[][] classes = (byte[][]) found[0];
    long[] numbers = (long[]) found[1];
    Set<Slab> slabs = new HashSet<>();
    for (int i = 0; i < classes.length; i++) {
      slabs.add(new Slab((int) numbers[2 * i], text(classes[i]), (int) numbers[2 * i + 1]));
    }
    return slabs;
  }

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
  public synchronized List<Slice> slices(
      List<String> filters,
      Long start,
      Long end,
      Map<Integer, Long> after,
      Map<Integer, Long> until,
      long bytesMax) {
    long[] range = {start == null ? Slice.ABSENT : start, end == null ? Slice.ABSENT : end};
    Object[] found =
        Native.slices(open(), utf8(filters), range, pairs(after), pairs(until), bytesMax);
    byte[][] classes = (byte[][]) found[0];
    List<Slice> slices = new ArrayList<>();
    for (int i = 0; i < classes.length; i++) {
      slices.add(Slice.of(text(classes[i]), (long[]) found[1], i * Slice.NUMBERS));
    }
    return slices;
  }

  /**
   * Returns a scan of slices: each message that matches a filter once, in no order.
   *
   * @param wanted the sum of the numbers of {@link SliceScan}, of all that its batches are to have
   */
  public synchronized SliceScan scan(List<String> filters, List<Slice> slices, int wanted) {
    return new SliceScan(
        Native.newScan(open(), utf8(filters), classesOf(slices), numbersOf(slices), wanted), wanted);
  }

  /**
   * Counts the messages of slices that match a filter, in groups. Reads no more of them than it
   * must. Throws TopicDbException; a {@link TopicDbException#VALUE} if there are more groups, or more
   * messages to be read, than allowed.
   *
   * @param grouping what makes a group
   * @param groupsMax the most groups
   * @param rowsMax the most messages that it may read
   */
  public synchronized Groups summarize(
      List<String> filters, List<Slice> slices, Grouping grouping, long groupsMax, long rowsMax) {
    Object[] found =
        Native.summarize(
            open(),
            utf8(filters),
            classesOf(slices),
            numbersOf(slices),
            grouping.levels(),
            grouping.span(),
            groupsMax,
            rowsMax);
    return new Groups((byte[]) found[0], (long[]) found[1]);
  }

  /** Closes it. May be repeated. */
  @Override
  public synchronized void close() {
    long closing = handle;
    handle = 0;
    if (closing != 0) {
      Native.close(closing);
    }
  }

  private long open() {
    if (handle == 0) {
      throw new TopicDbException("ClosedError", "the database is closed");
    }
    return handle;
  }

  private static byte[][] classesOf(List<Slice> slices) {
    return slices.stream().map(slice -> utf8(slice.slab().retentionClass())).toArray(byte[][]::new);
  }

  private static long[] numbersOf(List<Slice> slices) {
    long[] numbers = new long[slices.size() * Slice.NUMBERS];
    for (int i = 0; i < slices.size(); i++) {
      slices.get(i).put(numbers, i * Slice.NUMBERS);
    }
    return numbers;
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[][] utf8(List<String> texts) {
    return texts == null ? null : texts.stream().map(Database::utf8).toArray(byte[][]::new);
  }

  private static String text(byte[] utf8) {
    return new String(utf8, StandardCharsets.UTF_8);
  }

  private static long[] pairs(Map<Integer, Long> serials) {
    return serials.entrySet().stream()
        .flatMapToLong(one -> java.util.stream.LongStream.of(one.getKey(), one.getValue()))
        .toArray();
  }
}
