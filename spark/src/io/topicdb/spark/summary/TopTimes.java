package io.topicdb.spark.summary;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import io.topicdb.spark.select.Top;
import io.topicdb.spark.types.Grouping;
import java.util.List;

/**
 * Looks for the times that have the newest or oldest messages of a read: counts those of ever longer
 * times, until there are enough. Whole blocks and pages count by what they say of themselves, so
 * that little is read. The driver makes it while it plans a read. Not thread-safe.
 */
public final class TopTimes {
  /** It reads at most about this many messages each time. */
  private static final long MESSAGES_MAX = 1_000_000;

  private static final Grouping TOGETHER = new Grouping(0, Slice.ABSENT);
  private static final int LONGER = 4; // times as long as before

  private final MessageSource source;
  private final Options options;
  private final Selection selection;
  private final Top top;

  /**
   * @param source which the caller keeps open
   */
  public TopTimes(MessageSource source, Options options, Selection selection, Top top) {
    this.source = source;
    this.options = options;
    this.selection = selection;
    this.top = top;
  }

  /**
   * Returns a selection that has at least as many messages as are wanted, and no other ones than the
   * newest or oldest. Returns all of the selection if it has fewer, or if to count them would take
   * long. Throws TopicDbException.
   */
  public Selection narrowed() {
    try {
      return selection.isEmpty() ? selection : find();
    } catch (TopicDbException error) {
      if (error.name().equals(TopicDbException.VALUE)) {
        return selection; // too many messages would have to be read
      }
      throw error;
    }
  }

  private Selection find() {
    long estimate = slices(selection).stream().mapToLong(Slice::messages).sum();
    if (estimate <= top.messages()) {
      return selection;
    }
    Groups all = count(new Selection(null, selection.start(), selection.end()));
    if (all.size() == 0) {
      return selection;
    }
    long first = all.firstTime(0);
    long last = all.lastTime(0);
    double share = Math.min(2.0 * top.messages() / estimate, 1);
    for (long length = 1 + (long) (share * (last - first)); ; length *= LONGER) {
      if (length > (last - first) / LONGER) {
        return selection; // most of it is to be read in any case
      }
      Selection part =
          top.isNewest() ? selection.from(last - length) : selection.until(first + length);
      Groups found = count(part);
      if (found.size() > 0 && found.messages(0) >= top.messages()) {
        return part;
      }
    }
  }

  private Groups count(Selection part) {
    return source.summarize(part.filters(), slices(part), TOGETHER, 1, MESSAGES_MAX);
  }

  private List<Slice> slices(Selection part) {
    return source.slices(
        part.filters(), part.start(), part.end(), options.after(), options.until(), Long.MAX_VALUE);
  }
}
