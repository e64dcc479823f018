package io.topicdb.spark.stream;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.types.Extent;
import java.util.Map;

/**
 * The database of one query on the driver, which stays open between micro-batches: what nobody
 * wrote is not read again. The query's {@link StreamDriver} owns it and calls it from the thread of
 * the query.
 */
final class StreamedDatabase implements AutoCloseable {
  private final StreamOptions options;
  private Database opened;

  StreamedDatabase(StreamOptions options) {
    this.options = options;
  }

  /**
   * Returns the database as it is now. Throws TopicDbException if there is none, or if messages
   * that are to come would be in a generation without a log.
   */
  Database now() {
    if (opened != null) {
      opened.refresh();
      return opened;
    }
    Database database = Database.open(options.read().path());
    try {
      var last = database.extent().serials();
      database.tail(options.read().filters(), last, Map.of(), 0).close();
    } catch (RuntimeException | Error error) {
      database.close();
      throw error;
    }
    opened = database;
    return database;
  }

  @Override
  public void close() {
    if (opened != null) {
      opened.close();
    }
  }
}
