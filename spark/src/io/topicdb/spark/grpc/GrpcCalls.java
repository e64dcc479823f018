package io.topicdb.spark.grpc;

import io.topicdb.spark.remote.CallException;
import io.topicdb.spark.remote.Calls;
import io.topicdb.spark.select.Servers;
import io.topicdb.spark.shaded.io.grpc.CallOptions;
import io.topicdb.spark.shaded.io.grpc.Channel;
import io.topicdb.spark.shaded.io.grpc.ChannelCredentials;
import io.topicdb.spark.shaded.io.grpc.ClientInterceptors;
import io.topicdb.spark.shaded.io.grpc.Context;
import io.topicdb.spark.shaded.io.grpc.Detachable;
import io.topicdb.spark.shaded.io.grpc.InsecureChannelCredentials;
import io.topicdb.spark.shaded.io.grpc.ManagedChannel;
import io.topicdb.spark.shaded.io.grpc.Metadata;
import io.topicdb.spark.shaded.io.grpc.MethodDescriptor;
import io.topicdb.spark.shaded.io.grpc.Status;
import io.topicdb.spark.shaded.io.grpc.StatusRuntimeException;
import io.topicdb.spark.shaded.io.grpc.TlsChannelCredentials;
import io.topicdb.spark.shaded.io.grpc.okhttp.OkHttpChannelBuilder;
import io.topicdb.spark.shaded.io.grpc.stub.ClientCalls;
import io.topicdb.spark.shaded.io.grpc.stub.MetadataUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * The calls of Flight over gRPC. The connection finds it by its name, because a JAR may be built
 * without gRPC. Its gRPC is a copy of its own with other names (spark/grpc/pom.xml), since Spark and
 * other connectors bring other versions. Thread-safe.
 */
public final class GrpcCalls implements Calls {
  private static final String SERVICE = "arrow.flight.protocol.FlightService/";
  private static final int MESSAGE_BYTES_MAX = Integer.MAX_VALUE;
  private static final int WINDOW_BYTES = 8 << 20;
  private static final long CLOSE_TIMEOUT_SECONDS = 10;
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
  private static final Metadata.Key<String> TOKEN = keyOf("authorization");
  private static final Metadata.Key<String> CONNECTION = keyOf("topicdb-connection");

  private static final MethodDescriptor<byte[], byte[]> ACTION =
      method("DoAction", new Plain());
  private static final MethodDescriptor<byte[], InputStream> GET = method("DoGet", new Borrowed());

  private final ManagedChannel transport;
  private final Channel channel;

  /** Prepares a connection; the first call connects. Throws IllegalArgumentException. */
  public GrpcCalls(String address, Servers servers) {
    OkHttpChannelBuilder builder =
        OkHttpChannelBuilder.forAddress(
            Servers.hostOf(address), Servers.portOf(address), credentials(address, servers));
    builder.maxInboundMessageSize(MESSAGE_BYTES_MAX);
    builder.flowControlWindow(WINDOW_BYTES);
    builder.disableRetry();
    if (servers.tlsName() != null) {
      builder.overrideAuthority(servers.tlsName());
    }
    transport = builder.build();
    Metadata headers = new Metadata();
    headers.put(CONNECTION, UUID.randomUUID().toString().replace("-", ""));
    if (servers.token() != null) {
      headers.put(TOKEN, "Bearer " + servers.token());
    }
    channel =
        ClientInterceptors.intercept(transport, MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  private static ChannelCredentials credentials(String address, Servers servers) {
    if (!Servers.isTls(address)) {
      return InsecureChannelCredentials.create();
    }
    try {
      TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
      if (servers.tlsRoots() != null) {
        builder.trustManager(streamOf(servers.tlsRoots()));
      }
      if (servers.tlsCertificate() != null) {
        builder.keyManager(streamOf(servers.tlsCertificate()), streamOf(servers.tlsKey()));
      }
      return builder.build();
    } catch (IOException error) {
      throw new IllegalArgumentException(
          "option remote: the certificates of TLS cannot be used: " + error.getMessage(), error);
    }
  }

  private static InputStream streamOf(String pem) {
    return new ByteArrayInputStream(pem.getBytes(StandardCharsets.ISO_8859_1));
  }

  @Override
  public byte[] action(byte[] request, long timeoutSeconds) {
    CallOptions options = CallOptions.DEFAULT;
    if (timeoutSeconds > 0) {
      options = options.withDeadlineAfter(timeoutSeconds, TimeUnit.SECONDS);
    }
    try {
      Iterator<byte[]> results =
          ClientCalls.blockingServerStreamingCall(channel, ACTION, options, request);
      byte[] result = results.next();
      while (results.hasNext()) {
        results.next();
      }
      return result;
    } catch (StatusRuntimeException error) {
      throw translated(error);
    }
  }

  @Override
  public Frames get(byte[] request) {
    Context.CancellableContext context = Context.current().withCancellation();
    try {
      Iterator<InputStream> messages =
          context.call(
              () ->
                  ClientCalls.blockingServerStreamingCall(
                      channel, GET, CallOptions.DEFAULT, request));
      return new Messages(context, messages);
    } catch (RuntimeException error) {
      context.cancel(null);
      throw error;
    } catch (Exception error) {
      context.cancel(null);
      throw new IllegalStateException(error);
    }
  }

  @Override
  public void close() {
    transport.shutdownNow();
    try {
      transport.awaitTermination(CLOSE_TIMEOUT_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private static CallException translated(StatusRuntimeException error) {
    Metadata trailers = error.getTrailers();
    byte[] details = trailers == null ? null : trailers.get(DETAILS);
    Status.Code code = error.getStatus().getCode();
    CallException.Reason reason =
        switch (code) {
          case UNAUTHENTICATED, PERMISSION_DENIED -> CallException.Reason.ACCESS;
          case CANCELLED ->
              Thread.currentThread().isInterrupted()
                  ? CallException.Reason.INTERRUPTED
                  : CallException.Reason.OTHER;
          default -> CallException.Reason.OTHER;
        };
    return new CallException(reason, textOf(error), details, error);
  }

  private static String textOf(StatusRuntimeException error) {
    String text = error.getStatus().getDescription();
    Throwable cause = error.getCause();
    if (text == null) {
      text = error.getStatus().getCode().toString();
    }
    return cause == null || cause.getMessage() == null ? text : text + ": " + cause.getMessage();
  }

  private static Metadata.Key<String> keyOf(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  private static <T> MethodDescriptor<byte[], T> method(
      String name, MethodDescriptor.Marshaller<T> results) {
    return MethodDescriptor.<byte[], T>newBuilder()
        .setType(MethodDescriptor.MethodType.SERVER_STREAMING)
        .setFullMethodName(SERVICE + name)
        .setRequestMarshaller(new Plain())
        .setResponseMarshaller(results)
        .build();
  }

  /** Messages as arrays of bytes. */
  private static final class Plain implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] message) {
      return new ByteArrayInputStream(message);
    }

    @Override
    public byte[] parse(InputStream message) {
      try {
        return message.readAllBytes();
      } catch (IOException error) {
        throw Status.INTERNAL.withCause(error).asRuntimeException();
      }
    }
  }

  /** Messages that stay where gRPC has them, so that the reader copies them once. */
  private static final class Borrowed implements MethodDescriptor.Marshaller<InputStream> {
    @Override
    public InputStream stream(InputStream message) {
      return message;
    }

    @Override
    public InputStream parse(InputStream message) {
      if (message instanceof Detachable owner) {
        return owner.detach();
      }
      return new ByteArrayInputStream(new Plain().parse(message));
    }
  }

  /** The messages of one stream. Not thread-safe. */
  private static final class Messages implements Frames {
    private final Context.CancellableContext context;
    private final Iterator<InputStream> messages;

    Messages(Context.CancellableContext context, Iterator<InputStream> messages) {
      this.context = context;
      this.messages = messages;
    }

    @Override
    public InputStream next() {
      try {
        return messages.hasNext() ? messages.next() : null;
      } catch (StatusRuntimeException error) {
        throw translated(error);
      }
    }

    @Override
    public void close() {
      context.cancel(null);
    }
  }
}
