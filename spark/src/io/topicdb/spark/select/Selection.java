package io.topicdb.spark.select;

import io.topicdb.spark.core.Database;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * The topics and times of a read, which may hold more than a predicate lets through; the same as
 * topicdb.frames.selection. Immutable.
 *
 * @param filters a message has to match one of them; null stands for every topic, also those that
 *     begin with "$", and an empty list for no topic
 * @param start µs since 1970, or null
 * @param end µs since 1970, which is not in it, or null
 */
public record Selection(List<String> filters, Long start, Long end) implements Serializable {
  /** A read is not narrowed to more filters than these: each is looked for in each block. */
  static final int TOPICS_MAX = 64;

  static final Selection EVERYTHING = new Selection(null, null, null);
  static final Selection NOTHING = new Selection(List.of(), null, null);

  /** Returns whether nothing can match. */
  public boolean isEmpty() {
    if (filters != null && filters.isEmpty()) {
      return true;
    }
    return end != null && end <= (start == null ? 0 : start);
  }

  /** Returns a selection of what this one and the other have in common. */
  Selection both(Selection other) {
    Long later = start == null || (other.start != null && other.start > start) ? other.start : start;
    Long earlier = end == null || (other.end != null && other.end < end) ? other.end : end;
    return new Selection(common(filters, other.filters), later, earlier);
  }

  /** Returns what this selection has from a time (µs since 1970) on. */
  public Selection from(long time) {
    return both(ofTime(">=", time));
  }

  /** Returns what this selection has up to and including a time (µs since 1970). */
  public Selection until(long time) {
    return both(ofTime("<=", time));
  }

  /** Returns a selection of these topics; of everything, if they are too many to look for. */
  static Selection ofTopics(Collection<String> topics) {
    List<String> wanted = topics.stream().distinct().filter(Database::isTopic).toList();
    return wanted.size() <= TOPICS_MAX ? new Selection(wanted, null, null) : EVERYTHING;
  }

  /** Returns a selection that has all topics which begin with this text. */
  static Selection ofPrefix(String prefix) {
    int end = prefix.lastIndexOf('/'); // what follows may be a part of a level
    if (end < 0) {
      return EVERYTHING;
    }
    String levels = prefix.substring(0, end);
    if (!Database.isTopic(levels + "/")) { // such as "+/": no topic begins with that
      return NOTHING;
    }
    return new Selection(List.of(levels + "/#"), null, null);
  }

  /** Returns a selection of the timestamps that compare like this to a moment of µs, at least -1. */
  static Selection ofTime(String comparison, long moment) {
    boolean isLast = moment == Long.MAX_VALUE;
    Long start = null;
    Long end = null;
    if (comparison.equals(">") && isLast) {
      return NOTHING;
    }
    if (comparison.equals("=") || comparison.startsWith(">")) {
      long first = comparison.equals(">") ? moment + 1 : moment;
      start = first <= 0 ? null : first;
    }
    if (comparison.equals("=") || comparison.startsWith("<")) {
      boolean isOpen = comparison.equals("<");
      end = isOpen ? Long.valueOf(moment) : isLast ? null : Long.valueOf(moment + 1);
    }
    return end != null && end <= 0 ? NOTHING : new Selection(null, start, end);
  }

  private static List<String> common(List<String> one, List<String> other) {
    if (one == null || other == null) {
      return one == null ? other : one;
    }
    Set<String> found = new LinkedHashSet<>();
    for (String first : one) {
      for (String second : other) {
        String filter = commonFilter(first, second);
        if (filter != null) {
          found.add(filter);
        }
      }
    }
    if (found.size() <= TOPICS_MAX) {
      return List.copyOf(found);
    }
    return one.size() <= other.size() ? one : other;
  }

  /** Returns the filter of the topics that both filters match, or null if there are none. */
  static String commonFilter(String one, String other) {
    String[] first = one.split("/", -1);
    String[] second = other.split("/", -1);
    if (isKeptFrom(first[0], second[0]) || isKeptFrom(second[0], first[0])) {
      return null;
    }
    List<String> common = new ArrayList<>();
    for (int depth = 0; ; depth++) {
      String mine = depth < first.length ? first[depth] : null;
      String theirs = depth < second.length ? second[depth] : null;
      if ("#".equals(mine)) {
        return joined(common, second, depth);
      }
      if ("#".equals(theirs)) {
        return joined(common, first, depth);
      }
      if (mine == null || theirs == null) {
        return mine == null && theirs == null ? String.join("/", common) : null;
      }
      if (!mine.equals(theirs) && !mine.equals("+") && !theirs.equals("+")) {
        return null;
      }
      common.add(mine.equals("+") ? theirs : mine);
    }
  }

  /** Returns whether a filter that begins so matches no topic that begins with such a level. */
  private static boolean isKeptFrom(String wildcard, String level) {
    return (wildcard.equals("+") || wildcard.equals("#")) && level.startsWith("$");
  }

  private static String joined(List<String> common, String[] levels, int depth) {
    List<String> all = new ArrayList<>(common);
    all.addAll(List.of(levels).subList(Math.min(depth, levels.length), levels.length));
    return String.join("/", all);
  }
}
