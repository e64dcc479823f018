package io.topicdb.spark.write;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of texts or bytes outside the heap, which grows as needed. Not thread-safe. */
final class BytesColumn implements AutoCloseable {
  private static final long CAPACITY = 64L << 10;
  private static final long CAPACITY_MAX = Integer.MAX_VALUE; // offsets have 32 bits

  private final Validity validity;
  private long offsets;
  private long data;
  private long capacity = CAPACITY;
  private long end;
  private int size;

  BytesColumn(int rowsMax) {
    validity = new Validity(rowsMax);
    offsets = Platform.allocateMemory(4L * (rowsMax + 1));
    data = Platform.allocateMemory(capacity);
    Platform.putInt(null, offsets, 0);
  }

  long bytes() {
    return end;
  }

  void add(UTF8String text) {
    reserve(text.numBytes());
    text.writeToMemory(null, data + end);
    finish(text.numBytes(), true);
  }

  void add(byte[] bytes) {
    reserve(bytes.length);
    Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, data + end, bytes.length);
    finish(bytes.length, true);
  }

  void addNull() {
    finish(0, false);
  }

  /** Puts the addresses of validity, offsets and bytes at this place. */
  void put(long[] addresses, int place) {
    addresses[place] = validity.address();
    addresses[place + 1] = offsets;
    addresses[place + 2] = data;
  }

  void clear() {
    end = 0;
    size = 0;
    validity.clear();
  }

  @Override
  public void close() {
    validity.close();
    Platform.freeMemory(offsets);
    Platform.freeMemory(data);
    offsets = 0;
    data = 0;
  }

  private void finish(int bytes, boolean isValid) {
    end += bytes;
    size++;
    Platform.putInt(null, offsets + 4L * size, (int) end);
    validity.add(isValid);
  }

  private void reserve(int bytes) {
    if (end + bytes > CAPACITY_MAX) {
      throw new IllegalArgumentException("a row of more than 2 GiB is no message");
    }
    if (end + bytes > capacity) {
      long larger = Math.max(2 * capacity, end + bytes);
      data = Platform.reallocateMemory(data, end, larger);
      capacity = larger;
    }
  }
}
