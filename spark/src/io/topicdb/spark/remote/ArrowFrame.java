package io.topicdb.spark.remote;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.Platform;

/**
 * A record batch in memory outside the heap, as Arrow Flight sends it. A {@link RemoteScan} or
 * {@link RemoteParcels} owns one, and fills it again and again. Not thread-safe.
 *
 * <p>Sources of the format: arrow.apache.org/docs/format/Columnar.html (encapsulated messages),
 * Message.fbs and Flight.proto of Apache Arrow.
 */
final class ArrowFrame implements AutoCloseable {
  static final int FLIGHT_HEADER = 2;
  static final int FLIGHT_BODY = 1000;
  private static final int MESSAGE_TYPE = 1;
  private static final int MESSAGE_HEADER = 2;
  private static final int RECORD_BATCH = 3;
  private static final int BATCH_LENGTH = 0;
  private static final int BATCH_NODES = 1;
  private static final int BATCH_BUFFERS = 2;
  private static final int BATCH_COMPRESSION = 3;
  private static final int NUMBERS_OF_STRUCT = 2;

  private final OffHeap body = new OffHeap();
  private byte[] header;
  private int rows;
  private long[] nodes;
  private long[] buffers;

  /**
   * Reads the next record batch, and returns whether there is one.
   *
   * @throws IOException if a message is malformed
   */
  boolean readNext(Calls.Frames frames) throws IOException {
    while (true) {
      try (InputStream message = frames.next()) {
        if (message == null) {
          return false;
        }
        if (read(message)) {
          return true;
        }
      }
    }
  }

  /**
   * Reads a message FlightData.
   *
   * @return whether it is a record batch
   * @throws IOException if it is malformed
   */
  private boolean read(InputStream message) throws IOException {
    header = new byte[0];
    body.fill(InputStream.nullInputStream(), 0);
    Protobuf.read(message, this::take);
    if (header.length == 0) {
      return false;
    }
    try {
      return parse(Table.root(ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN)));
    } catch (IndexOutOfBoundsException error) {
      throw new IOException("a malformed header", error);
    }
  }

  private boolean take(int field, int size, InputStream bytes) throws IOException {
    if (field == FLIGHT_HEADER) {
      header = bytes.readNBytes(size);
    } else if (field == FLIGHT_BODY) {
      body.fill(bytes, size);
    } else {
      return false;
    }
    return true;
  }

  private boolean parse(Table message) throws IOException {
    if (message.byteOf(MESSAGE_TYPE) != RECORD_BATCH) {
      return false;
    }
    Table batch = message.tableOf(MESSAGE_HEADER);
    if (batch.has(BATCH_COMPRESSION)) {
      throw new IOException("a compressed batch");
    }
    rows = Math.toIntExact(batch.longOf(BATCH_LENGTH));
    nodes = batch.structsOf(BATCH_NODES, NUMBERS_OF_STRUCT);
    buffers = batch.structsOf(BATCH_BUFFERS, NUMBERS_OF_STRUCT);
    return true;
  }

  int rows() {
    return rows;
  }

  /**
   * Returns the address of a buffer.
   *
   * @param number its number among all buffers of the batch
   * @param sizeMin how many bytes it must have
   * @throws IOException if it is smaller, or not within the message
   */
  long buffer(int number, long sizeMin) throws IOException {
    int place = NUMBERS_OF_STRUCT * number;
    if (place >= buffers.length) {
      throw new IOException("too few columns");
    }
    long offset = buffers[place];
    long size = buffers[place + 1];
    if (offset < 0 || size < sizeMin || offset > body.size() - size || offset % Long.BYTES != 0) {
      throw new IOException("a column that is not there");
    }
    return body.start() + offset;
  }

  /**
   * Returns the address of the offsets of a column of texts, after a check of each one.
   *
   * @param number that of the buffer of offsets; the next one has the bytes
   * @throws IOException if they do not rise, or point outside the bytes
   */
  long offsets(int number) throws IOException {
    long address = buffer(number, 4L * (rows + 1));
    int before = Platform.getInt(null, address);
    if (before < 0) {
      throw new IOException("malformed offsets");
    }
    for (int row = 1; row <= rows; row++) {
      int next = Platform.getInt(null, address + 4L * row);
      if (next < before) {
        throw new IOException("malformed offsets");
      }
      before = next;
    }
    buffer(number + 1, before);
    return address;
  }

  /** Throws IOException unless a column has as many rows as the batch, and no nulls. */
  void checkColumn(int column) throws IOException {
    int place = NUMBERS_OF_STRUCT * column;
    if (place >= nodes.length || nodes[place] != rows || nodes[place + 1] != 0) {
      throw new IOException("a malformed column");
    }
  }

  @Override
  public void close() {
    body.close();
  }
}
