package io.topicdb.spark.stream;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Losses;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.types.Extent;
import io.topicdb.spark.types.Slab;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Which generations have commits that an offset has not read, and whether they are there. */
final class Generations {
  private Generations() {}

  /**
   * Returns the offset of these serials in a database that reaches so far.
   *
   * @param filters what concerns the query; null stands for every topic
   */
  static StreamOffset offset(
      LogSource source, Extent extent, List<String> filters, Map<Integer, Long> serials) {
    Map<Integer, Map<String, Integer>> found = new LinkedHashMap<>();
    for (Slab slab : extent.current()) {
      found
          .computeIfAbsent(slab.shard(), shard -> new LinkedHashMap<>())
          .put(slab.retentionClass(), slab.generation());
    }
    boolean hasMore =
        extent.serials().entrySet().stream()
            .anyMatch(last -> serials.get(last.getKey()) < last.getValue());
    if (hasMore) {
      for (Slice slice :
          source.slices(filters, null, null, serials, Map.of(), Long.MAX_VALUE)) {
        found
            .get(slice.slab().shard())
            .merge(slice.slab().retentionClass(), slice.slab().generation(), Math::min);
      }
    }
    return new StreamOffset(serials, found);
  }

  /** Returns the slabs that may have commits of a shard between two offsets. */
  static Set<Slab> between(StreamOffset start, StreamOffset end, int shard) {
    Set<Slab> slabs = new HashSet<>();
    end.classes(shard)
        .forEach(
            (name, last) -> {
              for (int generation = start.first(shard, name); generation <= last; generation++) {
                slabs.add(new Slab(shard, name, generation));
              }
            });
    return slabs;
  }

  /** Throws TopicDbException if something that an offset has not read is gone. */
  static void check(StreamOffset offset, Extent extent, Options options) {
    if (!options.failsOnDataLoss()) {
      return;
    }
    checkSerials("has read", offset, extent, options);
    Set<Slab> missing = new HashSet<>();
    for (Slab current : extent.current()) {
      int first = offset.first(current.shard(), current.retentionClass());
      for (int generation = first; generation < current.generation(); generation++) {
        missing.add(new Slab(current.shard(), current.retentionClass(), generation));
      }
    }
    missing.removeAll(extent.slabs());
    Losses.check(missing, options.place());
  }

  /** Throws TopicDbException if a database does not reach as far as it did when this was planned. */
  static void checkEnd(StreamOffset end, Extent extent, Options options) {
    if (options.failsOnDataLoss()) {
      checkSerials("has planned to read", end, extent, options);
    }
  }

  private static void checkSerials(
      String what, StreamOffset offset, Extent extent, Options options) {
    offset
        .serials()
        .forEach(
            (shard, serial) -> {
              Long last = extent.serials().get(shard);
              if (last == null || serial > last) {
                throw replaced(what, shard, serial, last, options.place());
              }
            });
  }

  private static TopicDbException replaced(
      String what, int shard, long serial, Long last, String path) {
    return new TopicDbException(
        "StorageError",
        "the query " + what + " shard " + shard + " of " + path + " up to commit " + serial
            + ", but it " + (last == null ? "is not there" : "ends at " + last) + ": was the database replaced, or restored from a copy?"
            + " failOnDataLoss=false goes on");
  }
}
