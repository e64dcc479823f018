package io.topicdb.spark.vectors;

import org.apache.spark.sql.types.DataTypes;

/** A vector with the same number in each row. Immutable. */
final class ConstantVector extends AbstractVector {
  private final int number;

  ConstantVector(int number) {
    super(DataTypes.IntegerType);
    this.number = number;
  }

  @Override
  public int getInt(int row) {
    return number;
  }
}
