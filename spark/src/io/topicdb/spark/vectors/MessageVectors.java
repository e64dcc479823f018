package io.topicdb.spark.vectors;

import io.topicdb.spark.core.Batch;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The vectors of the columns that a query needs, over the memory of one batch after the other. A
 * reader owns it. Not thread-safe.
 */
public final class MessageVectors {
  private final List<NativeVector> given = new ArrayList<>();
  private final NativeVector serials = new NativeVector(DataTypes.LongType);
  private final ColumnarBatch columns;

  /**
   * Makes them without a batch.
   *
   * @param wanted the columns, in their order
   * @param withProperties whether batches have the columns of properties
   * @param shard that of all messages
   */
  public MessageVectors(StructType wanted, boolean withProperties, int shard) {
    Map<String, ColumnVector> byName = new HashMap<>();
    byName.put(Columns.SHARD, new ConstantVector(shard));
    byName.put(Columns.SERIAL, serials);
    for (StructField field : Columns.given(withProperties).fields()) {
      NativeVector vector = new NativeVector(field.dataType());
      given.add(vector);
      byName.put(field.name(), vector);
    }
    List<ColumnVector> vectors = new ArrayList<>();
    for (String name : wanted.fieldNames()) {
      vectors.add(byName.get(name));
    }
    columns = new ColumnarBatch(vectors.toArray(ColumnVector[]::new));
  }

  /** Points the vectors at a batch. */
  public void show(Batch batch) {
    int place = batch.first();
    for (NativeVector vector : given) {
      place = vector.show(batch, place);
    }
    serials.show(batch.serials());
    columns.setNumRows(batch.rows());
  }

  /** Returns the vectors of the batch that was shown last. */
  public ColumnarBatch batch() {
    return columns;
  }
}
