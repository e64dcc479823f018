package io.topicdb.spark.core;

/**
 * Where the columns of some messages are in memory that a {@link MessageScan} lends. Valid until
 * the scan is asked for more. Not thread-safe.
 *
 * <p>The columns are topic, timestamp, value, and those of the properties if they were asked for.
 * They stand there as in Arrow's C data interface, and each is followed by its children.
 */
public final class Batch {
  /** The numbers before those of the columns: rows, bytes, the address of the serials. */
  private static final int HEAD = 3;

  /** The numbers of a column: length, nulls, three buffers, children. */
  private static final int COLUMN = 6;

  /** Columns and their children: 3, 11 of properties, and 4 children of these. */
  private static final int COLUMNS_MAX = 18;

  /** The place of the address of the serials among those of columns that Java has. */
  private static final int SERIALS = 5;

  static final int NUMBERS_MAX = HEAD + COLUMN * COLUMNS_MAX;

  private final long[] numbers;

  Batch(long[] numbers) {
    this.numbers = numbers;
  }

  /**
   * Returns a batch of columns without nulls, which nobody has to take apart.
   *
   * @param addresses as those of {@link GivenBatch}
   */
  public static Batch of(int rows, long bytes, long[] addresses) {
    long[] numbers = new long[NUMBERS_MAX];
    numbers[0] = rows;
    numbers[1] = bytes;
    numbers[2] = addresses[SERIALS];
    put(numbers, 0, rows, addresses[0], addresses[1]);
    put(numbers, 1, rows, addresses[2], 0);
    put(numbers, 2, rows, addresses[3], addresses[4]);
    return new Batch(numbers);
  }

  private static void put(long[] numbers, int column, int rows, long first, long second) {
    int place = HEAD + COLUMN * column;
    numbers[place] = rows;
    numbers[place + 3] = first;
    numbers[place + 4] = second;
  }

  public int rows() {
    return (int) numbers[0];
  }

  /** Returns the bytes of topics and values. */
  public long bytes() {
    return numbers[1];
  }

  /** Returns the address of the serials, 8 bytes each, or 0 if they were not asked for. */
  public long serials() {
    return numbers[2];
  }

  /** Returns the place of the first column. */
  public int first() {
    return HEAD;
  }

  /** Returns the place of the column behind the one at this place, or of its first child. */
  public int next(int place) {
    return place + COLUMN;
  }

  public boolean hasNulls(int place) {
    return numbers[place + 1] != 0;
  }

  public int nulls(int place) {
    return (int) numbers[place + 1];
  }

  /** Returns the address of a buffer of the column at this place, 0 for none. */
  public long buffer(int place, int number) {
    return numbers[place + 2 + number];
  }

  public int children(int place) {
    return (int) numbers[place + 5];
  }
}
