package io.topicdb.spark.core;

import io.topicdb.spark.types.AtLeast;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Extent;
import io.topicdb.spark.types.Grouping;
import io.topicdb.spark.types.Limits;
import io.topicdb.spark.types.Slab;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A handle of a database that is open for reading. Whoever opens it owns it and closes it, after
 * the scans that it gave. Thread-safe: one call at a time.
 */
public final class Database implements LogSource {
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

  /** Returns how far the open shards reach now, whatever the filters are. */
  @Override
  public synchronized Extent extent(List<String> filters) {
    Map<Slab, Boolean> slabs = slabsByState();
    List<Slab> current = slabs.keySet().stream().filter(slab -> !slabs.get(slab)).toList();
    return new Extent("", serials(Native.serials(open())), Set.copyOf(slabs.keySet()), current);
  }

  @Override
  public synchronized Set<Slab> slabs(List<String> filters) {
    return slabsByState().keySet();
  }

  /** Returns the slabs in the order of the core, and whether each is read-only. */
  private Map<Slab, Boolean> slabsByState() {
    Object[] found = Native.slabs(open());
    byte[][] classes = (byte[][]) found[0];
    long[] numbers = (long[]) found[1];
    Map<Slab, Boolean> slabs = new LinkedHashMap<>();
    for (int i = 0; i < classes.length; i++) {
      Slab slab = new Slab((int) numbers[3 * i], text(classes[i]), (int) numbers[3 * i + 1]);
      slabs.put(slab, numbers[3 * i + 2] != 0);
    }
    return slabs;
  }

  @Override
  public synchronized void refresh() {
    Native.refresh(open());
  }

  /** Waits. What was uploaded is of the past: it may lack what was acknowledged since. */
  @Override
  public synchronized void see(AtLeast needs, List<String> filters) {
    if (needs.isNothing()) {
      return;
    }
    if (objects != null && needs.serials() == null) {
      throw new TopicDbException(
          "StaleError",
          "an upload has what was stored when it was made, not all that was acknowledged since:"
              + " leave out atLeast, or read from a server");
    }
    long[] serials = needs.serials() == null ? null : pairs(needs.serials());
    long wait = objects == null ? TimeUnit.MILLISECONDS.toMicros(AtLeast.WAIT_MILLIS) : 0;
    Native.see(open(), serials, wait);
  }

  @Override
  public synchronized List<Slice> slices(
      List<String> filters,
      Long start,
      Long end,
      Map<Integer, Long> after,
      Map<Integer, Long> until,
      long bytesMax) {
    long[] range = {orAbsent(start), orAbsent(end)};
    Object[] found =
        Native.slices(open(), utf8(filters), range, pairs(after), pairs(until), bytesMax);
    byte[][] classes = (byte[][]) found[0];
    List<Slice> slices = new ArrayList<>();
    for (int i = 0; i < classes.length; i++) {
      slices.add(Slice.of(text(classes[i]), (long[]) found[1], i * Slice.NUMBERS));
    }
    return slices;
  }

  @Override
  public synchronized MessageScan scan(List<String> filters, List<Slice> slices, int wanted) {
    return new SliceScan(
        Native.newScan(open(), utf8(filters), classesOf(slices), numbersOf(slices), wanted), wanted);
  }

  @Override
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

  @Override
  public synchronized MessageScan tail(
      List<String> filters, Map<Integer, Long> after, Map<Integer, Long> until, int wanted) {
    return new SliceScan(Native.newTail(open(), utf8(filters), pairs(after), pairs(until)), wanted);
  }

  @Override
  public synchronized CommitSpan measure(
      int shard,
      List<String> filters,
      long after,
      Long until,
      Long start,
      Limits limits,
      boolean isOfBlocks) {
    long[] range = {after, orAbsent(until), orAbsent(start)};
    long[] most = {limits.messages(), limits.bytes()};
    long[] found = Native.measureLog(open(), shard, utf8(filters), range, most, isOfBlocks);
    return new CommitSpan(found[0], found[1], found[2]);
  }

  @Override
  public synchronized void close() {
    long closing = handle;
    handle = 0;
    if (closing == 0) {
      return;
    }
    if (objects != null) {
      objects.close();
    }
    Native.close(closing);
  }

  private long open() {
    if (handle == 0) {
      throw new TopicDbException("ClosedError", "the database is closed");
    }
    return handle;
  }

  private static long orAbsent(Long number) {
    return number == null ? Slice.ABSENT : number;
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

  private static SortedMap<Integer, Long> serials(long[] pairs) {
    SortedMap<Integer, Long> serials = new TreeMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      serials.put((int) pairs[i], pairs[i + 1]);
    }
    return serials;
  }
}
