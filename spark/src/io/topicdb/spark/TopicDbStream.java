package io.topicdb.spark;

import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.stream.StreamDriver;
import io.topicdb.spark.stream.StreamOffset;
import java.util.List;
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
    return driver.initial();
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
    driver.endHere();
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark gives a limit");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return driver.next((StreamOffset) start, limit);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    StreamOffset first = (StreamOffset) start;
    StreamOffset last = (StreamOffset) end;
    Place place = Place.of(options.read());
    List<? extends InputPartition> tasks =
        options.isInCommitOrder()
            ? driver.commits(first, last)
            : SlicePlan.divide(driver.slices(first, last), options.read().tasksMin()).stream()
                .map(slices -> new SlicesPartition(place, slices))
                .toList();
    return tasks.toArray(InputPartition[]::new);
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
