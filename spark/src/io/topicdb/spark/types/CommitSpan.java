package io.topicdb.spark.types;

/**
 * What commits of a shard have. Immutable.
 *
 * @param until the last of them
 * @param messages how many they have
 * @param bytes of the topics and values of these messages
 */
public record CommitSpan(long until, long messages, long bytes) {}
