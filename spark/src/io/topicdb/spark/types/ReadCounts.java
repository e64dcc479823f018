package io.topicdb.spark.types;

/**
 * What a scan has read so far. Immutable.
 *
 * @param blocks that were considered
 * @param blocksSkipped that cannot have wanted messages, by what is known of them
 * @param pages that were read
 * @param pagesSkipped pages of the other blocks that cannot have wanted messages
 * @param examined messages of the pages that were read
 * @param bytes of these pages, as they are stored
 */
public record ReadCounts(
    long blocks, long blocksSkipped, long pages, long pagesSkipped, long examined, long bytes) {
  /** A scan that does not count has read this. */
  public static final ReadCounts NONE = new ReadCounts(0, 0, 0, 0, 0, 0);
}
