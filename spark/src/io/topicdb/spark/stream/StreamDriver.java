package io.topicdb.spark.stream;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.types.Limits;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.LongFunction;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;

/**
 * Decides where the micro-batches of one query begin and end, and what their tasks read; the same
 * as topicdb.spark.stream. Spark's stream on the driver owns it and closes it, and calls it from
 * one thread at a time.
 */
public final class StreamDriver implements AutoCloseable {
  /** The number of the layout that keeps a log: LayoutKind::kColumnar. */
  private static final long COLUMNAR = 2;

  private final StreamOptions options;
  private final StreamedDatabase streamed;

  /** Where Trigger.AvailableNow ends, or null. */
  private SortedMap<Integer, Long> target;

  public StreamDriver(StreamOptions options) {
    this.options = options;
    streamed = new StreamedDatabase(options);
  }

  /** Returns where a new query begins. */
  public StreamOffset initial() {
    StreamedDatabase.Moment now = streamed.now();
    SortedMap<Integer, Long> serials = new TreeMap<>(now.extent().serials());
    if (options.start() != null) {
      serials.replaceAll((shard, last) -> beforeStart(now.source(), shard));
    } else if (options.starting().equals(StreamOptions.EARLIEST)) {
      serials.replaceAll((shard, last) -> 0L);
    } else if (options.starting() instanceof Map<?, ?> given) {
      checkShards(given, serials);
      serials.replaceAll(
          (shard, last) -> Math.min(given.get(shard) instanceof Long serial ? serial : 0L, last));
    }
    return offset(now, serials);
  }

  /** Returns the limit of each micro-batch. */
  public ReadLimit limit() {
    return BatchLimit.of(options);
  }

  /** Lets the query end with what is there now. */
  public void endHere() {
    target = streamed.now().extent().serials();
  }

  /** Returns where the micro-batch ends that begins at an offset. */
  public StreamOffset next(StreamOffset start, ReadLimit limit) {
    StreamedDatabase.Moment now = streamed.now();
    Generations.check(start, now.extent(), options.read());
    SortedMap<Integer, Long> end = new TreeMap<>();
    now.extent()
        .serials()
        .forEach(
            (shard, last) -> {
              long most = target == null ? last : target.getOrDefault(shard, last);
              end.put(shard, Math.max(start.serial(shard), Math.min(last, most)));
            });
    if (target != null && end.equals(start.serials())) {
      return start;
    }
    Limits limits = BatchLimit.of(limit);
    SortedMap<Integer, Long> reached =
        limits.equals(Limits.NONE)
            ? end
            : Admission.within(limits, now.source(), options.read().filters(), start, end);
    return offset(now, reached);
  }

  private StreamOffset offset(StreamedDatabase.Moment now, SortedMap<Integer, Long> serials) {
    return Generations.offset(now.source(), now.extent(), options.everyTopic(), serials);
  }

  /**
   * Returns what the tasks of a micro-batch read, in the order of commits. Throws TopicDbException
   * if something of it is gone, or in a generation that keeps no log.
   */
  public List<CommitsPartition> commits(StreamOffset start, StreamOffset end) {
    LogSource source = checked(start, end);
    return new CommitRuns(source, options.everyTopic(), streamed.place())
        .between(start, end, options.read().tasksMin());
  }

  /**
   * Returns what cuts a micro-batch into slices of about the bytes that it is given. Throws what
   * {@link #commits} throws.
   */
  public LongFunction<List<Slice>> slices(StreamOffset start, StreamOffset end) {
    LogSource source = checked(start, end);
    return bytesMax -> slices(source, start, end, bytesMax);
  }

  /** Returns where the tasks of a micro-batch read. REQUIRES: it was planned. */
  public Place place() {
    return streamed.place();
  }

  @Override
  public void close() {
    streamed.close();
  }

  /** Returns the database, in which a micro-batch is still whole. */
  private LogSource checked(StreamOffset start, StreamOffset end) {
    StreamedDatabase.Moment now = streamed.now();
    Generations.check(start, now.extent(), options.read());
    Generations.checkEnd(end, now.extent(), options.read());
    for (Slice slice : slices(now.source(), start, end, Long.MAX_VALUE)) {
      if (slice.layout() != COLUMNAR) {
        throw new TopicDbException(
            "SchemaError",
            "class '" + slice.slab().retentionClass() + "', generation "
                + slice.slab().generation() + " of shard " + slice.slab().shard() + " of "
                + options.read().place() + " has the layout 'skipstream', which keeps no commit"
                + " log: it can be read by batch, not by stream");
      }
    }
    return now.source();
  }

  private List<Slice> slices(
      LogSource source, StreamOffset start, StreamOffset end, long bytesMax) {
    return source.slices(
        options.read().filters(), null, null, start.serials(), end.serials(), bytesMax);
  }

  /**
   * Returns the serial before the first commit with a message of {@code startingTimestamp} or
   * later.
   */
  private long beforeStart(LogSource source, int shard) {
    var first =
        source.measure(
            shard,
            options.read().filters(),
            0,
            null,
            options.start(),
            new Limits(0, Long.MAX_VALUE),
            false);
    return first.messages() > 0 ? first.until() - 1 : first.until();
  }

  private void checkShards(Map<?, ?> given, SortedMap<Integer, Long> there) {
    for (Object shard : given.keySet()) {
      if (!there.containsKey((Integer) shard)) {
        throw new IllegalArgumentException(
            "option startingOffsets: " + options.read().place() + " has no shard " + shard
                + ", it has " + there.size());
      }
    }
  }
}
