package io.topicdb.spark.core;

/**
 * Messages that came from elsewhere, as a batch of the core: values that carry MQTT properties are
 * taken apart. Whoever makes it owns it and closes it. Not thread-safe.
 */
public final class GivenBatch implements AutoCloseable {
  private final Batch batch;
  private long handle;

  /**
   * Takes columns, whose memory must stay until this is closed.
   *
   * @param addresses of the offsets of topics, their bytes, the timestamps, the offsets of values,
   *     their bytes, and the serials; 0 for a column that is not there
   * @param wanted the sum of the numbers of {@link MessageScan}
   */
  public GivenBatch(int rows, long[] addresses, int wanted) {
    long[] found = new long[Batch.NUMBERS_MAX];
    handle = Native.lend(rows, addresses, wanted, found);
    batch = new Batch(found);
  }

  public Batch batch() {
    return batch;
  }

  /** Gives the memory back. May be repeated. */
  @Override
  public void close() {
    long closing = handle;
    handle = 0;
    if (closing != 0) {
      Native.release(closing);
    }
  }
}
