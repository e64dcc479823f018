package io.topicdb.spark.remote;

/** Says that a call of Flight has failed. */
public final class CallException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Why a call failed, as far as clients tell it apart. */
  public enum Reason {
    /** The token is missing, unknown, or may not do it. */
    ACCESS,
    /** The task was cancelled. */
    INTERRUPTED,
    /** Anything else. */
    OTHER
  }

  private final Reason reason;
  private final transient byte[] details;

  /**
   * Takes what is known.
   *
   * @param details what the server says of the error, or null if it said nothing
   */
  public CallException(Reason reason, String text, byte[] details, Throwable cause) {
    super(text, cause);
    this.reason = reason;
    this.details = details;
  }

  Reason reason() {
    return reason;
  }

  byte[] details() {
    return details;
  }
}
