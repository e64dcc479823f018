package io.topicdb.spark.types;

import java.util.List;
import java.util.Set;
import java.util.SortedMap;

/**
 * How far a database reaches at a moment. Immutable.
 *
 * @param database its id, which its replicas have as well; a directory does not tell it: empty
 * @param serials the last serial of each shard
 * @param slabs all of them
 * @param current those to which messages are written now, in the order of the core
 */
public record Extent(
    String database, SortedMap<Integer, Long> serials, Set<Slab> slabs, List<Slab> current) {}
