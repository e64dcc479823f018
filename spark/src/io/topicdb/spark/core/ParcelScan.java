package io.topicdb.spark.core;

import java.util.Arrays;

/**
 * Unpacks parcels: messages that another process has sent as they are stored. Whoever makes it owns
 * it and closes it. Not thread-safe.
 */
public final class ParcelScan implements AutoCloseable {
  private final int wanted;
  private final long[] found = new long[Batch.NUMBERS_MAX];
  private long scan;
  private long lent;

  /** Makes one without a parcel; {@code wanted} is the sum of the numbers of {@link MessageScan}. */
  public ParcelScan(int wanted) {
    this.wanted = wanted;
    scan = Native.newParcels(wanted);
  }

  /**
   * Begins a parcel. Its memory must stay until the next one begins, or until this is closed.
   *
   * @param address a multiple of 8
   * @throws TopicDbException CorruptionError if it is no parcel
   */
  public void begin(long address, long size) {
    takeBack();
    Native.beginParcel(scan, address, size);
  }

  /**
   * Returns the next messages of the parcel, or null at its end. What was returned before is no
   * longer there. Throws TopicDbException as {@link MessageScan#next} does.
   */
  public Batch next(int rowsMax, long bytesMax) {
    takeBack();
    Arrays.fill(found, 0);
    lent = Native.next(scan, rowsMax, bytesMax, wanted, found);
    return lent == 0 ? null : new Batch(found);
  }

  private void takeBack() {
    long taken = lent;
    lent = 0;
    if (taken != 0) {
      Native.release(taken);
    }
  }

  /** Gives the memory back. May be repeated. */
  @Override
  public void close() {
    takeBack();
    long closing = scan;
    scan = 0;
    if (closing != 0) {
      Native.endScan(closing);
    }
  }
}
