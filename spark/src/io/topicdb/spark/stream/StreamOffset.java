package io.topicdb.spark.stream;

import io.topicdb.spark.select.Json;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A place in a stream: for each shard the last commit that was read, and for each class of it the
 * first generation that may have more. Its JSON is that of the source in Python, character by
 * character, so that a checkpoint moves from one to the other. Immutable.
 */
public final class StreamOffset extends Offset {
  /** The first generation of each class. */
  private static final int FIRST = 1;

  private static final long VERSION = 1;

  private final SortedMap<Integer, Long> serials;
  private final Map<Integer, Map<String, Integer>> generations;

  /** The order of generations is that of the text. */
  StreamOffset(Map<Integer, Long> serials, Map<Integer, Map<String, Integer>> generations) {
    this.serials = new TreeMap<>(serials);
    this.generations = generations;
  }

  /** Reads JSON. Throws IllegalArgumentException if it is no offset of TopicDB. */
  public static StreamOffset parse(String json) {
    try {
      Map<?, ?> members = (Map<?, ?>) Json.parse(json);
      if (!members.get("v").equals(VERSION)) {
        throw new IllegalArgumentException("another version");
      }
      Map<Integer, Long> serials = new TreeMap<>();
      ((Map<?, ?>) members.get("serials"))
          .forEach((shard, serial) -> serials.put(shardOf(shard), (Long) serial));
      Map<Integer, Map<String, Integer>> generations = new LinkedHashMap<>();
      ((Map<?, ?>) members.get("generations"))
          .forEach((shard, classes) -> generations.put(shardOf(shard), classesOf(classes)));
      return new StreamOffset(serials, generations);
    } catch (IllegalArgumentException | ClassCastException | NullPointerException error) {
      throw new IllegalArgumentException(
          "checkpointLocation: " + json + " is no offset of this version of topicdb: does the"
              + " checkpoint belong to another source, or to a newer version?",
          error);
    }
  }

  private static Map<String, Integer> classesOf(Object classes) {
    Map<String, Integer> found = new LinkedHashMap<>();
    ((Map<?, ?>) classes)
        .forEach(
            (name, generation) ->
                found.put((String) name, Math.toIntExact((Long) generation)));
    return found;
  }

  private static Integer shardOf(Object shard) {
    return Integer.valueOf((String) shard);
  }

  @Override
  public String json() {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("v", VERSION);
    members.put("serials", serials);
    members.put("generations", generations);
    return Json.write(members);
  }

  SortedMap<Integer, Long> serials() {
    return serials;
  }

  /** Returns the last commit of a shard that was read, 0 for none. */
  long serial(int shard) {
    return serials.getOrDefault(shard, 0L);
  }

  /** Returns the classes of a shard, and the generation of each. */
  Map<String, Integer> classes(int shard) {
    return generations.getOrDefault(shard, Map.of());
  }

  /**
   * Returns the first generation of a class with commits that were not read. A class that is not
   * named was made since: once made, a class stays.
   */
  int first(int shard, String retentionClass) {
    return classes(shard).getOrDefault(retentionClass, FIRST);
  }
}
