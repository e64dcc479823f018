package io.topicdb.spark.remote;

import io.topicdb.spark.core.TopicDbException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Commits at a server, in their order: batches, in the form in which Flight sends them. It is open
 * at the server, which closes it if nobody asks for more for a while. Then this opens another one,
 * which goes on behind the last batch: each has whole commits. {@link RemoteSource#tail} makes it,
 * and the scan that reads it closes it. Not thread-safe.
 */
final class RemoteTail implements Calls.Frames {
  private static final String CLOSED = "ClosedError";
  private static final long ROWS_MAX = 10_000;
  private static final long BYTES_MAX = 8L << 20;
  private static final long WAIT_US = 500_000;

  /** The bytes before the header of an encapsulated message of Arrow: a mark and a size. */
  private static final int PREFIX_BYTES = 8;

  private static final int MARK = 0xffffffff;

  private final Connection connection;
  private final List<String> filters;
  private final Map<Integer, Long> until;
  private final boolean withSerials;
  private Map<Integer, Long> serials; // of the last commits that were read, by shard
  private Object number; // at the server; null: not open

  /** Begins. Throws TopicDbException. The arguments are those of {@link RemoteSource#tail}. */
  RemoteTail(
      Connection connection,
      List<String> filters,
      Map<Integer, Long> after,
      Map<Integer, Long> until,
      boolean withSerials) {
    this.connection = connection;
    this.filters = filters;
    this.until = until;
    this.withSerials = withSerials;
    serials = after;
    begin();
  }

  private void begin() {
    List<?> told = (List<?>) connection.call("tail", filters, serials, until, List.of());
    connection.told(
        () -> {
          number = told.get(0);
          serials = RemoteSource.serialsOf(told.get(1));
          return null;
        });
  }

  @Override
  public InputStream next() {
    while (!isDone()) {
      List<?> told = ask();
      byte[] batch =
          connection.told(
              () -> {
                serials = RemoteSource.serialsOf(told.get(1));
                return (byte[]) told.get(0);
              });
      if (batch != null) {
        return connection.told(() -> framed(batch));
      }
    }
    return null;
  }

  private boolean isDone() {
    return !until.isEmpty()
        && until.entrySet().stream()
            .allMatch(last -> serials.getOrDefault(last.getKey(), 0L) >= last.getValue());
  }

  /** Returns a batch or null, and the serials up to which everything was given. */
  private List<?> ask() {
    try {
      return step();
    } catch (TopicDbException error) {
      if (!error.name().equals(CLOSED)) {
        throw error;
      }
      begin();
      return step();
    }
  }

  private List<?> step() {
    return (List<?>)
        connection.call("tail.next", number, ROWS_MAX, BYTES_MAX, WAIT_US, withSerials);
  }

  /** Returns an encapsulated message of Arrow as a message FlightData. */
  private static InputStream framed(byte[] batch) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(batch).order(ByteOrder.LITTLE_ENDIAN);
    if (batch.length < PREFIX_BYTES || bytes.getInt() != MARK) {
      throw new IOException("a malformed batch");
    }
    int header = bytes.getInt();
    if (header < 0 || header > bytes.remaining()) {
      throw new IOException("a malformed batch");
    }
    int body = PREFIX_BYTES + header;
    ByteArrayOutputStream message = new ByteArrayOutputStream(batch.length + 2 * PREFIX_BYTES);
    Protobuf.put(message, ArrowFrame.FLIGHT_HEADER, Arrays.copyOfRange(batch, PREFIX_BYTES, body));
    Protobuf.put(message, ArrowFrame.FLIGHT_BODY, Arrays.copyOfRange(batch, body, batch.length));
    return new ByteArrayInputStream(message.toByteArray());
  }

  @Override
  public void close() {
    Object closing = number;
    number = null;
    if (closing == null) {
      return;
    }
    try {
      connection.call("close", closing);
    } catch (TopicDbException error) {
      // The server closes it by itself, soon after the connection.
    }
  }
}
