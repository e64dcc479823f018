package io.topicdb.spark.write;

import org.apache.spark.unsafe.Platform;

/** Bits outside the heap that say which rows of a column are not null. Not thread-safe. */
final class Validity implements AutoCloseable {
  private final long bytes;
  private long address;
  private int size;

  Validity(int rowsMax) {
    bytes = (rowsMax + 7) / 8;
    address = Platform.allocateMemory(bytes);
    clear();
  }

  long address() {
    return address;
  }

  void add(boolean isValid) {
    if (isValid) {
      long place = address + (size >> 3);
      byte bits = Platform.getByte(null, place);
      Platform.putByte(null, place, (byte) (bits | 1 << (size & 7)));
    }
    size++;
  }

  void clear() {
    size = 0;
    Platform.setMemory(address, (byte) 0, bytes);
  }

  @Override
  public void close() {
    Platform.freeMemory(address);
    address = 0; // freeing it again does nothing
  }
}
