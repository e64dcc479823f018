package io.topicdb.spark.stream;

import io.topicdb.spark.place.Place;
import io.topicdb.spark.types.Slab;
import java.util.Set;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Commits of one shard, which a task reads in their order. Immutable; goes from the driver to the
 * task.
 *
 * @param place where it reads
 * @param after only later commits
 * @param until only commits up to this one
 * @param slabs those that may have them
 */
public record CommitsPartition(
    Place place, int shard, long after, long until, Set<Slab> slabs) implements InputPartition {}
