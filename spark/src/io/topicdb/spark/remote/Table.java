package io.topicdb.spark.remote;

import java.nio.ByteBuffer;

/**
 * A table of FlatBuffers, of which Arrow's messages consist. Immutable.
 *
 * <p>Source of the format: flatbuffers.dev/internals. All methods throw IndexOutOfBoundsException if
 * the bytes are malformed.
 *
 * @param bytes the whole message, little-endian
 * @param at where the table begins
 */
record Table(ByteBuffer bytes, int at) {
  private static final int FIRST_FIELD = 4; // behind two sizes
  private static final int FIELD_BYTES = 2;
  private static final int SIZE_BYTES = 4;

  /** Returns the root of a message. */
  static Table root(ByteBuffer bytes) {
    return new Table(bytes, bytes.getInt(0));
  }

  /** Returns the place of a field, or 0 if it is absent. */
  private int place(int field) {
    int offsets = at - bytes.getInt(at);
    int entry = FIRST_FIELD + FIELD_BYTES * field;
    if (entry >= bytes.getShort(offsets)) {
      return 0;
    }
    int offset = bytes.getShort(offsets + entry) & 0xffff;
    return offset == 0 ? 0 : at + offset;
  }

  boolean has(int field) {
    return place(field) != 0;
  }

  /** Returns a field of one byte, 0 if it is absent. */
  int byteOf(int field) {
    int place = place(field);
    return place == 0 ? 0 : bytes.get(place);
  }

  /** Returns a field of eight bytes, 0 if it is absent. */
  long longOf(int field) {
    int place = place(field);
    return place == 0 ? 0 : bytes.getLong(place);
  }

  /** Returns a field that is a table itself. */
  Table tableOf(int field) {
    int place = place(field);
    return new Table(bytes, place + bytes.getInt(place));
  }

  /** Returns the numbers of a vector of structs, which have only fields of eight bytes. */
  long[] structsOf(int field, int fieldsOfStruct) {
    int place = place(field);
    if (place == 0) {
      return new long[0];
    }
    int vector = place + bytes.getInt(place);
    int count = bytes.getInt(vector);
    if (count < 0 || count > bytes.limit()) {
      throw new IndexOutOfBoundsException("a vector of " + count);
    }
    long[] numbers = new long[count * fieldsOfStruct];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = bytes.getLong(vector + SIZE_BYTES + Long.BYTES * i);
    }
    return numbers;
  }
}
