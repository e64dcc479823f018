package io.topicdb.spark.write;

import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Gathers rows as columns outside the heap, in the form of Arrow's, for the core to read. Its owner
 * closes it. Not thread-safe.
 */
final class RowBuffer implements AutoCloseable {
  private static final int ROWS_MAX = 10_000;
  private static final long BYTES_MAX = 4L << 20; // and one row more

  private final RowColumns columns;
  private final BytesColumn topics = new BytesColumn(ROWS_MAX);
  private final TimesColumn times = new TimesColumn(ROWS_MAX);
  private final BytesColumn values = new BytesColumn(ROWS_MAX);
  private final BytesColumn keys = new BytesColumn(ROWS_MAX);
  private int size;

  RowBuffer(RowColumns columns) {
    this.columns = columns;
  }

  int size() {
    return size;
  }

  boolean isFull() {
    return size == ROWS_MAX || topics.bytes() + values.bytes() + keys.bytes() >= BYTES_MAX;
  }

  /** Adds a row, which is copied. */
  void add(InternalRow row) {
    add(topics, row, columns.topic(), true);
    add(values, row, columns.value(), columns.isValueText());
    if (columns.key() != RowColumns.ABSENT) {
      add(keys, row, columns.key(), columns.isKeyText());
    }
    if (columns.timestamp() != RowColumns.ABSENT) {
      if (row.isNullAt(columns.timestamp())) {
        times.addNull();
      } else {
        times.add(row.getLong(columns.timestamp()));
      }
    }
    size++;
  }

  /** Returns the addresses that {@link io.topicdb.spark.core.StagedWriter#append} wants. */
  long[] addresses() {
    long[] addresses = new long[12];
    topics.put(addresses, 0);
    if (columns.timestamp() != RowColumns.ABSENT) {
      times.put(addresses, 3);
    }
    values.put(addresses, 6);
    if (columns.key() != RowColumns.ABSENT) {
      keys.put(addresses, 9);
    }
    return addresses;
  }

  void clear() {
    size = 0;
    topics.clear();
    times.clear();
    values.clear();
    keys.clear();
  }

  @Override
  public void close() {
    topics.close();
    times.close();
    values.close();
    keys.close();
  }

  private static void add(BytesColumn column, InternalRow row, int place, boolean isText) {
    if (row.isNullAt(place)) {
      column.addNull();
    } else if (isText) {
      column.add(row.getUTF8String(place));
    } else {
      column.add(row.getBinary(place));
    }
  }
}
