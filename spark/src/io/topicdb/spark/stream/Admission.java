package io.topicdb.spark.stream;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Limits;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** How far a micro-batch goes: to the end of what is there, or as far as limits allow. */
final class Admission {
  private Admission() {}

  /**
   * Returns how far to read from an offset up to {@code end} within limits, but at least one commit.
   *
   * <p>The shards share the limits. The first shard, a different one each time, may read a commit
   * that is larger than its share.
   *
   * @param filters of the messages that count; null stands for every topic
   */
  static SortedMap<Integer, Long> within(
      Limits limits,
      LogSource database,
      List<String> filters,
      StreamOffset begin,
      Map<Integer, Long> end) {
    SortedMap<Integer, Long> result = new TreeMap<>(end);
    List<Integer> behind = new ArrayList<>();
    for (Integer shard : new TreeMap<>(end).keySet()) {
      if (begin.serial(shard) < end.get(shard)) {
        behind.add(shard);
        result.put(shard, begin.serial(shard));
      }
    }
    long all = begin.serials().values().stream().mapToLong(Long::longValue).sum();
    Collections.rotate(behind, -(int) (all % Math.max(behind.size(), 1)));
    Limits left = limits;
    for (int i = 0; i < behind.size(); i++) {
      int shard = behind.get(i);
      Limits share = share(left, behind.size() - i);
      CommitSpan span =
          database.measure(
              shard, filters, result.get(shard), end.get(shard), null, share, false);
      boolean fits = span.messages() <= left.messages() && span.bytes() <= left.bytes();
      if (fits || left.equals(limits)) {
        result.put(shard, span.until());
        left =
            new Limits(
                Math.max(left.messages() - span.messages(), 0),
                Math.max(left.bytes() - span.bytes(), 0));
      }
    }
    return result;
  }

  /** Returns what one of several shards may read: its part, rounded up, but at least 1. */
  private static Limits share(Limits left, int shards) {
    return new Limits(
        Math.max(-Math.floorDiv(-left.messages(), shards), 1),
        Math.max(-Math.floorDiv(-left.bytes(), shards), 1));
  }
}
