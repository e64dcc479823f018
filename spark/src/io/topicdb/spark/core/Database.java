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
  /** Stands for all shards where one is named. */
  public static final int ALL_SHARDS = -1;

  private long handle;
  private final ObjectSource objects; // null for a directory

  private Database(long handle, ObjectSource objects) {
    this.handle = handle;
    this.objects = objects;
  }

  /** Opens all shards. Throws TopicDbException. */
  public static Database open(String path) {
    return openShard(path, ALL_SHARDS);
  }

  /** Opens one shard. Throws TopicDbException. */
  public static Database openShard(String path, int shard) {
    return new Database(Native.open(utf8(path), shard), null);
  }

  /**
   * Opens an upload. Throws TopicDbException.
   *
   * @param url its place, for errors
   * @param name of its manifest, for errors
   * @param manifest the content of that
   * @param objects gives its objects; is closed with the database
   * @param shard the one to open, or {@link #ALL_SHARDS}
   */
  public static Database openUpload(
      String url, String name, byte[] manifest, ObjectSource objects, int shard) {
    return new Database(
        Native.openUpload(utf8(url), utf8(name), manifest, objects, shard), objects);
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
    byte[][] classes = new byte[slices.size()][];
    long[] numbers = new long[slices.size() * Slice.NUMBERS];
    for (int i = 0; i < classes.length; i++) {
      classes[i] = utf8(slices.get(i).slab().retentionClass());
      slices.get(i).put(numbers, i * Slice.NUMBERS);
    }
    return new SliceScan(Native.newScan(open(), utf8(filters), classes, numbers, wanted), wanted);
  }

  /** Closes it. May be repeated. */
  @Override
  public synchronized void close() {
    long closing = handle;
    handle = 0;
    if (closing == 0) {
      return;
    }
    Native.close(closing);
    if (objects != null) {
      objects.close();
    }
  }

  private long open() {
    if (handle == 0) {
      throw new TopicDbException("ClosedError", "the database is closed");
    }
    return handle;
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
