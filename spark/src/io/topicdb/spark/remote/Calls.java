package io.topicdb.spark.remote;

import java.io.InputStream;

/**
 * The calls of Arrow Flight to one server, as bytes. A {@link Connection} owns it. Thread-safe. All
 * methods throw {@link CallException} if the server or the way to it fails.
 */
public interface Calls extends AutoCloseable {
  /**
   * Makes an action, and returns its result.
   *
   * @param request the message Action of Flight's protocol
   * @param timeoutSeconds 0: without a limit
   * @return the first message Result
   */
  byte[] action(byte[] request, long timeoutSeconds);

  /**
   * Begins a stream.
   *
   * @param request the message Ticket of Flight's protocol
   */
  Frames get(byte[] request);

  /** Closes the connection. May be repeated. */
  @Override
  void close();

  /** The messages FlightData of a stream. Not thread-safe. */
  interface Frames extends AutoCloseable {
    /** Returns the next one, which the caller closes, or null at the end. */
    InputStream next();

    /** Ends the stream. May be repeated. */
    @Override
    void close();
  }
}
