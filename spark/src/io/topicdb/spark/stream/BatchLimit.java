package io.topicdb.spark.stream;

import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.types.Limits;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;

/**
 * The limits of a micro-batch, which Spark carries from the options to the next call. Spark 3.5 has
 * no limit of bytes of its own. Immutable.
 */
public record BatchLimit(Limits limits) implements ReadLimit {
  static ReadLimit of(StreamOptions options) {
    if (options.messagesMax() != null) {
      return new BatchLimit(Limits.ofMessages(options.messagesMax()));
    }
    if (options.bytesMax() != null) {
      return new BatchLimit(Limits.ofBytes(options.bytesMax()));
    }
    return ReadLimit.allAvailable();
  }

  static Limits of(ReadLimit limit) {
    if (limit instanceof BatchLimit mine) {
      return mine.limits();
    }
    return limit instanceof ReadMaxRows rows ? Limits.ofMessages(rows.maxRows()) : Limits.NONE;
  }
}
