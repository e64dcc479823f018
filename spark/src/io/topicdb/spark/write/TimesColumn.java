package io.topicdb.spark.write;

import org.apache.spark.unsafe.Platform;

/** A column of timestamps outside the heap. Not thread-safe. */
final class TimesColumn implements AutoCloseable {
  private final Validity validity;
  private long numbers;
  private int size;

  TimesColumn(int rowsMax) {
    validity = new Validity(rowsMax);
    numbers = Platform.allocateMemory(8L * rowsMax);
  }

  void add(long number) {
    Platform.putLong(null, numbers + 8L * size, number);
    validity.add(true);
    size++;
  }

  void addNull() {
    Platform.putLong(null, numbers + 8L * size, 0);
    validity.add(false);
    size++;
  }

  /** Puts the addresses of validity and numbers at this place. */
  void put(long[] addresses, int place) {
    addresses[place] = validity.address();
    addresses[place + 1] = numbers;
  }

  void clear() {
    size = 0;
    validity.clear();
  }

  @Override
  public void close() {
    validity.close();
    Platform.freeMemory(numbers);
    numbers = 0;
  }
}
