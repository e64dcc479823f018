package io.topicdb.spark.core;

import java.nio.charset.StandardCharsets;

/**
 * An error of the core, or of the way to it. The message begins with the name that the error has in
 * Python and in docs/reference/errors.md, such as {@code NotFoundError}.
 *
 * <p>It is an IllegalArgumentException because PySpark shows these with their text, as exceptions of
 * its own. Any other is a failed call through its bridge to Java, with a long stack trace.
 */
public final class TopicDbException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  /** The name of the error about what is no topic or topic filter. */
  public static final String TOPIC = "TopicError";

  /** The name of the error about a thread that was interrupted. */
  public static final String INTERRUPTED = "InterruptedError";

  /** The name of the error about a server that cannot be reached. */
  public static final String UNAVAILABLE = "UnavailableError";

  /** The name of the error about an argument that cannot be right, or a limit that was met. */
  public static final String VALUE = "ValueError";

  /** The names of the codes of the core's Status (cpp/include/topicdb/status.h), by number. */
  private static final String[] NAMES = {
    "Error",
    VALUE,
    TOPIC,
    "SchemaError",
    "NotFoundError",
    "LockedError",
    "ReadOnlyError",
    "CorruptionError",
    "StorageError",
    "ClosedError",
    "ForkedError",
    INTERRUPTED,
    "ConflictError",
    "PreconditionError",
    "QuotaError",
    "ExistsError",
    "MissingShardError",
    "NoQuorumError",
    "UnknownOutcomeError",
    "StaleError",
    "ClusterError",
  };

  /** Stands for an exception of C++ that the core should not throw, such as a lack of memory. */
  private static final int UNEXPECTED = -1;

  private final String name;

  public TopicDbException(String name, String text) {
    this(name, text, null);
  }

  public TopicDbException(String name, String text, Throwable cause) {
    super(name + ": " + text, cause);
    this.name = name;
  }

  /** Returns the exception for a code of the core. Native code calls it. */
  static TopicDbException of(int code, byte[] text) {
    boolean isKnown = code != UNEXPECTED && code >= 0 && code < NAMES.length;
    return new TopicDbException(
        isKnown ? NAMES[code] : "NativeError", new String(text, StandardCharsets.UTF_8));
  }

  /**
   * Lets a plain exception go from a task to the driver. Spark reads it there with a class loader
   * that does not know the JARs of a session, and would lose one of this class with its text.
   */
  private Object writeReplace() {
    IllegalStateException plain = new IllegalStateException(getMessage(), getCause());
    plain.setStackTrace(getStackTrace());
    return plain;
  }

  /** Returns the name of the error, such as {@code NotFoundError}. */
  public String name() {
    return name;
  }

  /** Returns the text of the error without its name. */
  public String text() {
    return getMessage().substring(name.length() + 2);
  }
}
