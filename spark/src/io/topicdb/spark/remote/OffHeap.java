package io.topicdb.spark.remote;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import org.apache.spark.unsafe.Platform;

/**
 * Memory outside the heap for one message at a time. Its owner closes it. Not thread-safe.
 *
 * <p>It grows to the size of the largest message, and keeps that until it is closed.
 */
final class OffHeap implements AutoCloseable {
  private static final int CHUNK_BYTES = 64 << 10;
  private static final int ALIGNMENT = 64;

  private final byte[] chunk = new byte[CHUNK_BYTES];
  private long address;
  private long capacity;
  private long size;

  /** Reads bytes into it, over those that it had. */
  void fill(InputStream bytes, int count) throws IOException {
    reserve(count);
    size = 0;
    while (size < count) {
      int read = bytes.read(chunk, 0, (int) Math.min(chunk.length, count - size));
      if (read < 0) {
        throw new EOFException("a message is cut off");
      }
      Platform.copyMemory(chunk, Platform.BYTE_ARRAY_OFFSET, null, start() + size, read);
      size += read;
    }
  }

  /** Returns how many bytes it has. */
  long size() {
    return size;
  }

  /** Returns the address of the first byte, a multiple of 64. */
  long start() {
    return (address + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  private void reserve(long bytes) {
    if (bytes <= capacity) {
      return;
    }
    close();
    address = Platform.allocateMemory(bytes + ALIGNMENT);
    capacity = bytes;
  }

  @Override
  public void close() {
    if (address != 0) {
      Platform.freeMemory(address);
    }
    address = 0;
    capacity = 0;
    size = 0;
  }
}
