package io.topicdb.spark.vectors;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A vector that refuses every type; subclasses give the types that they have. */
abstract class AbstractVector extends ColumnVector {
  AbstractVector(DataType type) {
    super(type);
  }

  /** The reader owns the memory, so that nothing is to be done here however often Spark calls it. */
  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return false;
  }

  @Override
  public int numNulls() {
    return 0;
  }

  @Override
  public boolean isNullAt(int row) {
    return false;
  }

  @Override
  public boolean getBoolean(int row) {
    throw refusal();
  }

  @Override
  public byte getByte(int row) {
    throw refusal();
  }

  @Override
  public short getShort(int row) {
    throw refusal();
  }

  @Override
  public int getInt(int row) {
    throw refusal();
  }

  @Override
  public long getLong(int row) {
    throw refusal();
  }

  @Override
  public float getFloat(int row) {
    throw refusal();
  }

  @Override
  public double getDouble(int row) {
    throw refusal();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw refusal();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw refusal();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw refusal();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw refusal();
  }

  @Override
  public byte[] getBinary(int row) {
    throw refusal();
  }

  @Override
  public ColumnVector getChild(int number) {
    throw refusal();
  }

  private UnsupportedOperationException refusal() {
    return new UnsupportedOperationException("a vector of " + type.simpleString());
  }
}
