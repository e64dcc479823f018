package io.topicdb.spark;

import io.topicdb.spark.select.StreamOptions;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read with options that only a stream takes, or that are wrong. On the driver. Immutable. */
final class StreamScan implements Scan {
  private final Map<String, String> given;
  private final StructType columns;
  private final IllegalArgumentException refusal;

  /**
   * @param refusal says why it is no batch read
   */
  StreamScan(Map<String, String> given, StructType columns, IllegalArgumentException refusal) {
    this.given = given;
    this.columns = columns;
    this.refusal = refusal;
  }

  /**
   * Returns the stream of these options. Throws IllegalArgumentException, which names the option.
   */
  static MicroBatchStream streamOf(Map<String, String> given, StructType columns) {
    StreamOptions options = StreamOptions.of(given);
    Query query = new Query(options.read(), options.read().selection(), columns, Query.NO_LIMIT);
    return new TopicDbStream(options, query);
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return TopicDbProvider.NAME + " " + given.get("path");
  }

  @Override
  public Batch toBatch() {
    throw refusal;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return streamOf(given, columns);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Metrics.all();
  }
}
