package io.topicdb.spark.remote;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.GivenBatch;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.Platform;

/**
 * A scan of slices at a server. The server sends batches; each stays in memory outside the heap
 * until the next one is asked for. {@link RemoteSource#scan} makes it.
 */
final class RemoteScan implements MessageScan {
  /** The first bytes of a value with properties (docs/internals/format.md), as a number. */
  private static final int ENVELOPE_MAGIC = 0x454454f5;

  /** The buffers of the columns topic, timestamp, value and serial: each begins with validity. */
  private static final int TOPIC_OFFSETS = 1;

  private static final int TIMESTAMPS = 4;
  private static final int VALUE_OFFSETS = 6;

  private final Connection connection;
  private final List<String> filters;
  private final List<Slice> slices;
  private final int wanted;
  private final ArrowFrame frame = new ArrowFrame();
  private final long[] addresses = new long[6];
  private Calls.Frames frames;
  private GivenBatch given;
  private boolean isClosed;

  RemoteScan(Connection connection, List<String> filters, List<Slice> slices, int wanted) {
    this.connection = connection;
    this.filters = filters;
    this.slices = slices;
    this.wanted = wanted;
  }

  /** Reads batches with all columns that were asked for already. Closes what gives them. */
  RemoteScan(Connection connection, Calls.Frames frames, int wanted) {
    this(connection, null, List.of(), wanted);
    this.frames = frames;
  }

  @Override
  public synchronized Batch next(int rowsMax, long bytesMax) {
    if (isClosed) {
      throw new TopicDbException("ClosedError", "the scan is closed");
    }
    takeBack();
    return connection.told(
        () -> {
          if (frames == null) {
            frames = connection.read(arguments(rowsMax, bytesMax));
          }
          while (frame.readNext(frames)) {
            if (frame.rows() > 0) {
              return shown();
            }
          }
          return null;
        });
  }

  /** The first call decides how large the batches of the whole scan are. */
  private List<Object> arguments(int rowsMax, long bytesMax) {
    List<String> columns = new ArrayList<>(List.of("topic", "timestamp"));
    if (needsValues()) {
      columns.add("value");
    }
    List<Object> arguments = new ArrayList<>();
    arguments.add("scan_slices");
    arguments.add(filters);
    arguments.add(slices);
    arguments.add(columns);
    arguments.add((long) rowsMax);
    arguments.add(bytesMax);
    arguments.add((wanted & SERIALS) != 0);
    return arguments;
  }

  private boolean needsValues() {
    return (wanted & (VALUES | PROPERTIES)) != 0;
  }

  private Batch shown() throws IOException {
    int rows = frame.rows();
    int columns = needsValues() ? 3 : 2;
    for (int column = 0; column < columns; column++) {
      frame.checkColumn(column);
    }
    addresses[0] = frame.offsets(TOPIC_OFFSETS);
    addresses[1] = frame.buffer(TOPIC_OFFSETS + 1, 0);
    addresses[2] = frame.buffer(TIMESTAMPS, 8L * rows);
    addresses[3] = needsValues() ? frame.offsets(VALUE_OFFSETS) : 0;
    addresses[4] = needsValues() ? frame.buffer(VALUE_OFFSETS + 1, 0) : 0;
    if ((wanted & SERIALS) != 0) {
      frame.checkColumn(columns);
      addresses[5] = frame.buffer(needsValues() ? 9 : 6, 8L * rows);
    }
    if ((wanted & PROPERTIES) != 0 || (needsValues() && hasEnvelopes(rows))) {
      given = new GivenBatch(rows, addresses, wanted);
      return given.batch();
    }
    long bytes = sizeOf(addresses[0], rows) + sizeOf(addresses[3], rows);
    return Batch.of(rows, bytes, addresses);
  }

  private static long sizeOf(long offsets, int rows) {
    return offsets == 0
        ? 0
        : Platform.getInt(null, offsets + 4L * rows) - Platform.getInt(null, offsets);
  }

  private boolean hasEnvelopes(int rows) {
    int begin = Platform.getInt(null, addresses[3]);
    for (int row = 1; row <= rows; row++) {
      int end = Platform.getInt(null, addresses[3] + 4L * row);
      if (end - begin >= 4 && Platform.getInt(null, addresses[4] + begin) == ENVELOPE_MAGIC) {
        return true;
      }
      begin = end;
    }
    return false;
  }

  private void takeBack() {
    if (given != null) {
      given.close();
      given = null;
    }
  }

  @Override
  public synchronized void close() {
    isClosed = true;
    takeBack();
    if (frames != null) {
      frames.close();
    }
    frame.close();
  }
}
