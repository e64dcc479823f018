package io.topicdb.spark.vectors;

import io.topicdb.spark.core.Batch;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A vector over memory outside the heap, which has the form of Arrow's columns: bits that say what
 * is not null, offsets of 32 bits, and bytes. It needs no library of Arrow, and so goes with every
 * version that Spark brings. {@link MessageVectors} owns it. Not thread-safe.
 */
final class NativeVector extends AbstractVector {
  private final boolean hasOffsets;
  private final NativeVector[] children;
  private int nulls;
  private long validity;
  private long offsets;
  private long data;

  NativeVector(DataType type) {
    super(type);
    children = childrenOf(type);
    String name = type.typeName();
    hasOffsets = name.equals("string") || name.equals("binary") || type instanceof ArrayType;
  }

  /** Points the vector at a column of a batch, and returns the place behind it. */
  int show(Batch batch, int place) {
    nulls = batch.nulls(place);
    validity = nulls == 0 ? 0 : batch.buffer(place, 0);
    offsets = hasOffsets ? batch.buffer(place, 1) : 0;
    data = batch.buffer(place, hasOffsets ? 2 : 1);
    int behind = batch.next(place);
    for (NativeVector child : children) {
      behind = child.show(batch, behind);
    }
    return behind;
  }

  /** Points the vector at numbers without nulls. */
  void show(long address) {
    data = address;
  }

  @Override
  public boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return validity != 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(data, row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, data + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, data + 8L * row);
  }

  /** Returns a text that lends the memory: whoever keeps it longer than the batch copies it. */
  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    return UTF8String.fromAddress(null, data + begin, offset(row + 1) - begin);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    byte[] bytes = new byte[offset(row + 1) - begin];
    Platform.copyMemory(null, data + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int begin = offset(row);
    return new ColumnarArray(children[0], begin, offset(row + 1) - begin);
  }

  @Override
  public ColumnVector getChild(int number) {
    return children[number];
  }

  private int offset(int row) {
    return Platform.getInt(null, offsets + 4L * row);
  }

  private static boolean bit(long bits, int row) {
    return (Platform.getByte(null, bits + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  private static NativeVector[] childrenOf(DataType type) {
    if (type instanceof ArrayType array) {
      return new NativeVector[] {new NativeVector(array.elementType())};
    }
    if (type instanceof StructType struct) {
      NativeVector[] children = new NativeVector[struct.length()];
      for (int i = 0; i < children.length; i++) {
        children[i] = new NativeVector(struct.apply(i).dataType());
      }
      return children;
    }
    return new NativeVector[0];
  }
}
