package io.topicdb.spark;

import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.stream.StreamDriver;
import io.topicdb.spark.stream.StreamOffset;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * A stream of reads of one query. Lives on the driver as long as the query, whose thread calls it.
 */
final class TopicDbStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final StreamOptions options;
  private final Query query;
  private final StreamDriver driver;

  /**
   * @param query what each micro-batch reads
   */
  TopicDbStream(StreamOptions options, Query query) {
    this.options = options;
    this.query = query;
    driver = new StreamDriver(options);
  }

  @Override
  public Offset initialOffset() {
    return stoppable(driver::initial);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return StreamOffset.parse(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return driver.limit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    stoppable(
        () -> {
          driver.endHere();
          return null;
        });
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark gives a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return stoppable(() -> driver.next((StreamOffset) start, limit));
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return stoppable(() -> tasks((StreamOffset) start, (StreamOffset) end))
        .toArray(InputPartition[]::new);
  }

  private List<? extends InputPartition> tasks(StreamOffset start, StreamOffset end) {
    if (options.isInCommitOrder()) {
      return driver.commits(start, end);
    }
    List<List<Slice>> tasks =
        SlicePlan.divide(driver.slices(start, end), options.read().tasksMin());
    Place place = driver.place();
    return tasks.stream().map(slices -> new SlicesPartition(place, slices)).toList();
  }

  /** Returns what a call returns. If it is interrupted, Spark knows that it has stopped the query. */
  private static <T> T stoppable(Supplier<T> call) {
    try {
      return call.get();
    } catch (TopicDbException error) {
      if (!error.name().equals(TopicDbException.INTERRUPTED)) {
        throw error;
      }
      throw new UncheckedIOException(new InterruptedIOException(error.getMessage()));
    }
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new SlicesReaderFactory(query);
  }

  /** Does nothing: the database keeps messages as its retention says. */
  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {
    driver.close();
  }
}
