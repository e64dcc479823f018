package io.topicdb.spark.remote;

import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Servers;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * A connection to one server with one token. Whoever opens it closes it. Thread-safe.
 *
 * <p>docs/reference/serve.md describes the protocol. Errors of the server come as TopicDbException
 * with its name and text; those of the way to it are UnavailableError and AccessError.
 */
final class Connection implements AutoCloseable {
  /** The version of the protocol: that of topicdb.remote.wire. */
  private static final long PROTOCOL = 4;

  /** The version of parcels that the core unpacks. */
  private static final Long PARCELS = 1L;

  private static final long CONNECT_TIMEOUT_SECONDS = 20;
  private static final String TRANSPORT = "io.topicdb.spark.grpc.GrpcCalls";
  private static final int ACTION_TYPE = 1;
  private static final int ACTION_BODY = 2;
  private static final int RESULT_BODY = 1;
  private static final int TICKET = 1;

  private final String address;
  private final Calls calls;
  private final Map<?, ?> hello;

  /**
   * Connects.
   *
   * @throws TopicDbException UnavailableError if nobody answers or speaks another protocol;
   *     AccessError if the server does not take the token; PlatformError if this JAR has no gRPC
   */
  Connection(String address, Servers servers) {
    this.address = address;
    calls = newCalls(address, servers);
    try {
      hello = (Map<?, ?>) firstCall();
      if (!hello.get("protocol").equals(PROTOCOL)) {
        throw new TopicDbException(
            "UnavailableError",
            address + " speaks protocol " + hello.get("protocol") + ", this is " + PROTOCOL
                + ": install the same version of topicdb on both sides");
      }
    } catch (RuntimeException | Error error) {
      calls.close();
      throw error;
    }
  }

  private Object firstCall() {
    try {
      return call(CONNECT_TIMEOUT_SECONDS, "hello");
    } catch (TopicDbException error) {
      boolean isOfTransport = error.getCause() instanceof CallException;
      if (!isOfTransport || !error.name().equals("UnavailableError")) {
        throw error;
      }
      String why = Reasons.whyNot(address, error.getCause().getMessage());
      throw new TopicDbException("UnavailableError", why, error.getCause());
    }
  }

  /** gRPC is in a JAR only if it was built with it, so nothing here may refer to it. */
  private static Calls newCalls(String address, Servers servers) {
    try {
      return (Calls)
          Class.forName(TRANSPORT)
              .getConstructor(String.class, Servers.class)
              .newInstance(address, servers);
    } catch (InvocationTargetException error) {
      if (error.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new IllegalStateException(error);
    } catch (ClassNotFoundException error) {
      throw new TopicDbException(
          "PlatformError",
          "this JAR was built without gRPC, which the option remote needs: take the JAR of a"
              + " released package, or use format('topicdb-python')");
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  String address() {
    return address;
  }

  /** Returns what the server said of itself at the beginning. */
  Map<?, ?> hello() {
    return hello;
  }

  /** Returns whether the server can send messages as it stores them, in a form known here. */
  boolean sendsParcels() {
    return hello.get("parcels") instanceof List<?> versions && versions.contains(PARCELS);
  }

  /** Returns the result of a call. Throws TopicDbException. */
  Object call(String method, Object... arguments) {
    return call(0, method, arguments);
  }

  private Object call(long timeoutSeconds, String method, Object... arguments) {
    ByteArrayOutputStream action = new ByteArrayOutputStream();
    Protobuf.put(action, ACTION_TYPE, method);
    Protobuf.put(action, ACTION_BODY, Wire.encode(Arrays.asList(arguments)));
    return told(
        () -> {
          List<byte[]> body = new ArrayList<>();
          Protobuf.read(
              new ByteArrayInputStream(calls.action(action.toByteArray(), timeoutSeconds)),
              (field, size, bytes) ->
                  field == RESULT_BODY && body.add(bytes.readNBytes(size)));
          return Wire.decode(body.isEmpty() ? new byte[0] : body.get(0));
        });
  }

  /** Begins a stream of messages. Read it within {@link #told}. */
  Calls.Frames read(List<Object> call) {
    ByteArrayOutputStream ticket = new ByteArrayOutputStream();
    Protobuf.put(ticket, TICKET, Wire.encode(call));
    return calls.get(ticket.toByteArray());
  }

  /** What may fail because of the server or the way to it. */
  interface Work<T> {
    T run() throws IOException;
  }

  /** Returns what the work returns, and throws its errors as TopicDbException. */
  <T> T told(Work<T> work) {
    try {
      return work.run();
    } catch (CallException error) {
      throw translated(error);
    } catch (IOException | ClassCastException | NullPointerException error) {
      throw new TopicDbException(
          "UnavailableError", address + ": a malformed answer: " + error.getMessage(), error);
    }
  }

  private TopicDbException translated(CallException error) {
    if (error.details() != null) {
      try {
        Map<?, ?> told = (Map<?, ?>) Wire.decode(error.details());
        return new TopicDbException((String) told.get("kind"), (String) told.get("text"));
      } catch (IllegalArgumentException | ClassCastException | NullPointerException malformed) {
        error.addSuppressed(malformed); // falls through: what gRPC says must do
      }
    }
    String name =
        switch (error.reason()) {
          case ACCESS -> "AccessError";
          case INTERRUPTED -> "InterruptedError";
          case OTHER -> "UnavailableError";
        };
    return new TopicDbException(name, address + ": " + error.getMessage(), error);
  }

  @Override
  public void close() {
    calls.close();
  }
}
