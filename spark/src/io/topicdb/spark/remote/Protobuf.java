package io.topicdb.spark.remote;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/**
 * The little of Protocol Buffers that the messages of Flight need: fields of bytes. Has no state.
 *
 * <p>Source of the format: protobuf.dev/programming-guides/encoding.
 */
final class Protobuf {
  private static final int VARINT = 0;
  private static final int FIXED_64 = 1;
  private static final int BYTES = 2;
  private static final int FIXED_32 = 5;
  private static final int TYPE_BITS = 3;
  private static final int VARINT_BITS_MAX = 64;

  private Protobuf() {}

  /** Adds a field of bytes to a message. */
  static void put(ByteArrayOutputStream message, int field, byte[] bytes) {
    putVarint(message, ((long) field << TYPE_BITS) | BYTES);
    putVarint(message, bytes.length);
    message.writeBytes(bytes);
  }

  static void put(ByteArrayOutputStream message, int field, String text) {
    put(message, field, text.getBytes(StandardCharsets.UTF_8));
  }

  private static void putVarint(ByteArrayOutputStream message, long number) {
    long rest = number;
    while (rest >>> 7 != 0) {
      message.write((int) (rest & 0x7f) | 0x80);
      rest >>>= 7;
    }
    message.write((int) rest);
  }

  /** Takes the fields of a message, in their order. */
  interface Fields {
    /**
     * Reads a field, or leaves it.
     *
     * @return whether it has read all of its bytes
     */
    boolean take(int field, int size, InputStream bytes) throws IOException;
  }

  /** Reads a message. Throws IOException if it is malformed. */
  static void read(InputStream message, Fields fields) throws IOException {
    while (true) {
      int first = message.read();
      if (first < 0) {
        return;
      }
      long tag = varint(first, message);
      int field = (int) (tag >>> TYPE_BITS);
      switch ((int) tag & 7) {
        case VARINT -> varint(message.read(), message);
        case FIXED_64 -> message.skipNBytes(8);
        case FIXED_32 -> message.skipNBytes(4);
        case BYTES -> {
          long size = varint(message.read(), message);
          if (size < 0 || size > Integer.MAX_VALUE) {
            throw new IOException("a field of " + size + " bytes");
          }
          if (!fields.take(field, (int) size, message)) {
            message.skipNBytes(size);
          }
        }
        default -> throw new IOException("a field of an unknown type");
      }
    }
  }

  private static long varint(int first, InputStream bytes) throws IOException {
    long number = 0;
    int next = first;
    for (int shift = 0; shift < VARINT_BITS_MAX; shift += 7) {
      if (next < 0) {
        throw new EOFException("a number is cut off");
      }
      number |= (long) (next & 0x7f) << shift;
      if ((next & 0x80) == 0) {
        return number;
      }
      next = bytes.read();
    }
    throw new IOException("a number is too long");
  }
}
