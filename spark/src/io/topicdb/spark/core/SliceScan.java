package io.topicdb.spark.core;

import java.util.Arrays;

/**
 * A read of slices or commits that is under way. {@link Database#scan} and {@link Database#tail}
 * make it, and the caller closes it before the database. It lends the memory of one batch at a
 * time: the next call takes it back. Thread-safe: one call at a time.
 */
public final class SliceScan implements AutoCloseable {
  /** The values are wanted as readers see them: payloads. */
  public static final int VALUES = 1;

  /** The serial of each message is wanted. */
  public static final int SERIALS = 2;

  /** The MQTT properties are wanted, and with them the values. */
  public static final int PROPERTIES = 4;

  private final int wanted;
  private long scan;
  private long lent;
  private final long[] found = new long[Batch.NUMBERS_MAX];

  /** Takes over the handle of a scan, and the sum of the numbers above. */
  SliceScan(long scan, int wanted) {
    this.scan = scan;
    this.wanted = wanted;
  }

  /**
   * Returns the next messages, or null at the end. What was returned before is no longer there.
   *
   * @param rowsMax the most messages
   * @param bytesMax the most bytes of them, but at least one message
   */
  public synchronized Batch next(int rowsMax, long bytesMax) {
    if (scan == 0) {
      throw new TopicDbException("ClosedError", "the scan is closed");
    }
    takeBack();
    Arrays.fill(found, 0);
    lent = Native.next(scan, rowsMax, bytesMax, wanted, found);
    return lent == 0 ? null : new Batch(found);
  }

  /** Closes it. May be repeated. */
  @Override
  public synchronized void close() {
    takeBack();
    long closing = scan;
    scan = 0;
    if (closing != 0) {
      Native.endScan(closing);
    }
  }

  private void takeBack() {
    long taken = lent;
    lent = 0;
    if (taken != 0) {
      Native.release(taken);
    }
  }
}
