package io.topicdb.spark.stream;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.StreamOptions;
import io.topicdb.spark.types.Extent;
import java.util.List;
import java.util.Map;

/**
 * The database of one query on the driver, which stays open between micro-batches: what nobody
 * wrote is not read again. The query's {@link StreamDriver} owns it and calls it from the thread of
 * the query.
 */
final class StreamedDatabase implements AutoCloseable {
  private final StreamOptions options;
  private LogSource opened;
  private String id; // of the database; null: not known yet
  private Place place; // where tasks read; null: not known yet

  StreamedDatabase(StreamOptions options) {
    this.options = options;
  }

  /** The database, open, and how far it reaches. */
  record Moment(LogSource source, Extent extent) {}

  /**
   * Returns the database as it is now. If its server does not answer any more, takes another one.
   * Throws TopicDbException if there is none, if it is another database than before, or if messages
   * that are to come would be in a generation without a log.
   */
  Moment now() {
    if (opened != null) {
      try {
        opened.refresh();
        return checked(opened);
      } catch (TopicDbException error) {
        if (!error.name().equals(TopicDbException.UNAVAILABLE)) {
          throw error;
        }
        close();
      }
    }
    List<String> filters = options.read().filters();
    Place found = Place.of(options.read());
    LogSource source = found.open();
    try {
      Moment now = checked(source);
      source.tail(filters, now.extent().serials(), Map.of(), 0).close();
      if (place == null) {
        place = found.planned(source, filters);
        id = now.extent().database();
      }
      opened = source;
      return now;
    } catch (RuntimeException | Error error) {
      source.close();
      throw error;
    }
  }

  private Moment checked(LogSource source) {
    Extent extent = source.extent(options.read().filters());
    if (id != null && !id.equals(extent.database())) {
      throw new TopicDbException(
          "ValueError",
          "option remote: a server of " + options.read().place() + " has another database than the"
              + " query began with: all servers of the list must offer the same one");
    }
    return new Moment(source, extent);
  }

  /** Returns where tasks read. REQUIRES: {@link #now} was called. */
  Place place() {
    return place;
  }

  @Override
  public void close() {
    if (opened != null) {
      opened.close();
      opened = null;
    }
  }
}
