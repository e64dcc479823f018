package io.topicdb.spark.write;

import io.topicdb.spark.core.Staging;
import io.topicdb.spark.select.WriteOptions;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/**
 * Makes the write of a batch, or of one micro-batch of a stream, on the driver. Checks the columns
 * before a job begins. Spark makes one for each, and calls it from one thread.
 */
public final class JobWriteBuilder implements WriteBuilder, SupportsTruncate {
  private final WriteOptions options;
  private final StructType schema;
  private final String queryId;

  /**
   * @param schema of the rows
   * @param queryId the id of the streaming query
   */
  public JobWriteBuilder(WriteOptions options, StructType schema, String queryId) {
    this.options = options;
    this.schema = schema;
    this.queryId = queryId;
  }

  /** Refuses the modes that replace what is stored. */
  @Override
  public WriteBuilder truncate() {
    throw new IllegalArgumentException(
        "mode overwrite (output mode complete): format('topicdb') only appends; delete what"
            + " shall go with Database.delete, and use mode append");
  }

  @Override
  public Write build() {
    RowColumns columns;
    try (Staging staging = Stagings.open(options)) {
      columns = RowColumns.of(schema, staging, options.place());
      staging.check();
    }
    return new Write() {
      @Override
      public String description() {
        return "topicdb " + options.place();
      }

      @Override
      public BatchWrite toBatch() {
        return new BatchJob(options, columns);
      }

      @Override
      public StreamingWrite toStreaming() {
        return new StreamJobs(options, columns, queryId);
      }
    };
  }
}
