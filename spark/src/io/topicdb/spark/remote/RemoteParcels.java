package io.topicdb.spark.remote;

import io.topicdb.spark.core.Batch;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.ParcelScan;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.Platform;

/**
 * A scan of slices at a server that sends parcels: pages as it stores them, which this process
 * decompresses. One parcel at a time stays in memory outside the heap. {@link RemoteSource#scan}
 * makes it.
 */
final class RemoteParcels implements MessageScan {
  /** The least size of parcels, so that a small limit of a batch does not make many calls. */
  private static final long BYTES_MIN = 1L << 20;

  /** The buffers of the only column: each begins with validity. */
  private static final int OFFSETS = 1;

  private final Connection connection;
  private final List<String> filters;
  private final List<Slice> slices;
  private final int wanted;
  private final ArrowFrame frame = new ArrowFrame();
  private final ParcelScan parcels;
  private Calls.Frames frames;
  private boolean hasParcel;
  private boolean isClosed;

  RemoteParcels(Connection connection, List<String> filters, List<Slice> slices, int wanted) {
    this.connection = connection;
    this.filters = filters;
    this.slices = slices;
    this.wanted = wanted;
    parcels = new ParcelScan(wanted);
  }

  @Override
  public synchronized Batch next(int rowsMax, long bytesMax) {
    if (isClosed) {
      throw new TopicDbException("ClosedError", "the scan is closed");
    }
    while (true) {
      Batch batch = hasParcel ? parcels.next(rowsMax, bytesMax) : null;
      if (batch != null) {
        return batch;
      }
      hasParcel = connection.told(() -> read(bytesMax));
      if (!hasParcel) {
        return null;
      }
    }
  }

  /** Reads the next parcel, and returns whether there is one. */
  private boolean read(long bytesMax) throws IOException {
    if (frames == null) {
      frames = connection.read(arguments(bytesMax));
    }
    if (!frame.readNext(frames)) {
      return false;
    }
    show();
    return true;
  }

  private void show() throws IOException {
    if (frame.rows() != 1) {
      throw new IOException("a parcel of " + frame.rows() + " rows");
    }
    frame.checkColumn(0);
    long offsets = frame.offsets(OFFSETS);
    int begin = Platform.getInt(null, offsets);
    int size = Platform.getInt(null, offsets + 4) - begin;
    if (begin != 0) {
      throw new IOException("a parcel that is not aligned");
    }
    parcels.begin(frame.buffer(OFFSETS + 1, size), size);
  }

  private List<Object> arguments(long bytesMax) {
    List<Object> arguments = new ArrayList<>();
    arguments.add("scan_parcels");
    arguments.add(filters);
    arguments.add(slices);
    arguments.add((wanted & (VALUES | PROPERTIES)) != 0);
    arguments.add(Math.max(BYTES_MIN, bytesMax / 4));
    return arguments;
  }

  @Override
  public synchronized void close() {
    isClosed = true;
    parcels.close();
    if (frames != null) {
      frames.close();
    }
    frame.close();
  }
}
