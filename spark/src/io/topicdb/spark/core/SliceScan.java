package io.topicdb.spark.core;

import io.topicdb.spark.types.ReadCounts;
import java.util.Arrays;

/**
 * A scan of the core. {@link Database#scan}, {@link Database#tail} and {@link ParcelScan} make it.
 */
final class SliceScan implements MessageScan {
  private final int wanted;
  private long scan;
  private long lent;
  private ReadCounts counts = ReadCounts.NONE; // when it was closed
  private final long[] found = new long[Batch.NUMBERS_MAX];

  /** Takes over the handle of a scan, and the sum of the numbers of {@link MessageScan}. */
  SliceScan(long scan, int wanted) {
    this.scan = scan;
    this.wanted = wanted;
  }

  @Override
  public synchronized Batch next(int rowsMax, long bytesMax) {
    if (scan == 0) {
      throw new TopicDbException("ClosedError", "the scan is closed");
    }
    takeBack();
    Arrays.fill(found, 0);
    lent = Native.next(scan, rowsMax, bytesMax, wanted, found);
    return lent == 0 ? null : new Batch(found);
  }

  @Override
  public synchronized ReadCounts counts() {
    if (scan != 0) {
      long[] now = Native.counters(scan);
      counts = new ReadCounts(now[0], now[1], now[2], now[3], now[4], now[5]);
    }
    return counts;
  }

  @Override
  public synchronized void close() {
    takeBack();
    counts();
    long closing = scan;
    scan = 0;
    if (closing != 0) {
      Native.endScan(closing);
    }
  }

  /** Begins a parcel, if this is a scan of {@link Native#newParcels}. */
  synchronized void beginParcel(long address, long size) {
    takeBack();
    Native.beginParcel(scan, address, size);
  }

  private void takeBack() {
    long taken = lent;
    lent = 0;
    if (taken != 0) {
      Native.release(taken);
    }
  }
}
