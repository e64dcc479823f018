package io.topicdb.spark.summary;

import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.place.Place;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that the driver has found while it planned the query: Spark starts no task for them.
 * Immutable.
 */
public final class LocalSummary implements LocalScan {
  /** The driver finds at most this many groups, and reads at most this many messages for them. */
  private static final long GROUPS_MAX = 100_000;

  private static final long MESSAGES_MAX = 4_000_000;

  private final Aggregates aggregates;
  private final InternalRow[] rows;
  private final String description;

  /**
   * @param rows those of the aggregates
   * @param description what EXPLAIN shows
   */
  public LocalSummary(Aggregates aggregates, InternalRow[] rows, String description) {
    this.aggregates = aggregates;
    this.rows = rows;
    this.description = description;
  }

  /**
   * Returns the rows of aggregates, or null if they take longer than the driver should, or if more
   * than one task is asked for: then tasks find them. Throws TopicDbException.
   */
  public static InternalRow[] find(Options options, Selection selection, Aggregates aggregates) {
    Place place = Place.of(options);
    try (MessageSource source = place.open(options.atLeast(), selection.filters())) {
      List<Slice> slices =
          selection.isEmpty()
              ? List.of()
              : source.slices(
                  selection.filters(),
                  selection.start(),
                  selection.end(),
                  options.after(),
                  options.until(),
                  Long.MAX_VALUE);
      long messages = slices.stream().mapToLong(Slice::messages).sum();
      boolean isForTasks = aggregates.isGrouped() && messages > MESSAGES_MAX; // reads most pages
      if (isForTasks || (options.tasksMin() > 1 && messages > 0)) {
        return null;
      }
      return aggregates.merged(
          source.summarize(
              selection.filters(), slices, aggregates.grouping(), GROUPS_MAX, MESSAGES_MAX));
    } catch (TopicDbException error) {
      if (error.name().equals(TopicDbException.VALUE)) {
        return null; // too many groups or messages
      }
      throw error;
    }
  }

  @Override
  public StructType readSchema() {
    return aggregates.schema();
  }

  @Override
  public InternalRow[] rows() {
    return rows;
  }

  @Override
  public String description() {
    return description;
  }
}
