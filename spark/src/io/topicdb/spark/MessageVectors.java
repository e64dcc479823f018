package io.topicdb.spark;

import io.topicdb.spark.core.Batch;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The vectors of the columns that a query needs, over the memory of one batch after the other. A
 * reader owns it. Not thread-safe.
 */
final class MessageVectors {
  private final List<NativeVector> given = new ArrayList<>();
  private final NativeVector serials = new NativeVector(DataTypes.LongType);
  private final ColumnarBatch columns;

  MessageVectors(Query query, int shard) {
    Map<String, ColumnVector> byName = new HashMap<>();
    byName.put(Columns.SHARD, new ConstantVector(shard));
    byName.put(Columns.SERIAL, serials);
    for (StructField field : Columns.given(query.wantsProperties()).fields()) {
      NativeVector vector = new NativeVector(field.dataType());
      given.add(vector);
      byName.put(field.name(), vector);
    }
    List<ColumnVector> wanted = new ArrayList<>();
    for (String name : query.columns().fieldNames()) {
      wanted.add(byName.get(name));
    }
    columns = new ColumnarBatch(wanted.toArray(ColumnVector[]::new));
  }

  /** Points the vectors at a batch. */
  void show(Batch batch) {
    int place = batch.first();
    for (NativeVector vector : given) {
      place = vector.show(batch, place);
    }
    serials.show(batch.serials());
    columns.setNumRows(batch.rows());
  }

  ColumnarBatch batch() {
    return columns;
  }
}
