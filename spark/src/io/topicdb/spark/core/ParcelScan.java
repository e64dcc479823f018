package io.topicdb.spark.core;

/**
 * Unpacks parcels: messages that another process has sent as they are stored. Whoever makes it owns
 * it and closes it. Not thread-safe.
 */
public final class ParcelScan implements AutoCloseable {
  private final SliceScan batches;

  /** Makes one without a parcel; {@code wanted} is the sum of the numbers of {@link MessageScan}. */
  public ParcelScan(int wanted) {
    batches = new SliceScan(Native.newParcels(wanted), wanted);
  }

  /**
   * Begins a parcel. Its memory must stay until the next one begins, or until this is closed.
   *
   * @param address a multiple of 8
   * @throws TopicDbException CorruptionError if it is no parcel
   */
  public void begin(long address, long size) {
    batches.beginParcel(address, size);
  }

  /**
   * Returns the next messages of the parcel, or null at its end. What was returned before is no
   * longer there. Throws TopicDbException as {@link MessageScan#next} does.
   */
  public Batch next(int rowsMax, long bytesMax) {
    return batches.next(rowsMax, bytesMax);
  }

  /** Gives the memory back. May be repeated. */
  @Override
  public void close() {
    batches.close();
  }
}
