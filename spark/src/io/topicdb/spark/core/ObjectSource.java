package io.topicdb.spark.core;

/**
 * The objects of an upload. Whoever opens a database there makes it, and the database holds it until
 * it is closed. Native code calls it, from several threads at the same time, also from threads that
 * Java did not start.
 */
public interface ObjectSource extends AutoCloseable {
  /** There is no such object. The numbers are those of the core's Status. */
  int MISSING = 4;

  /** The object ends before what is asked. */
  int DAMAGED = 7;

  /** The store failed. */
  int FAILED = 8;

  /** The thread was interrupted. */
  int INTERRUPTED = 11;

  /**
   * Fills an array with the bytes of an object.
   *
   * @param name of the object, in UTF-8, below the place of the upload
   * @param bytes the length of the object, as the manifest says
   * @param offset of the first byte
   * @return null, or what went wrong: one of the numbers above as the first byte, and behind it a
   *     text in UTF-8 that names the object
   */
  byte[] read(byte[] name, long bytes, long offset, byte[] to);

  /**
   * Frees what it has open, and interrupts the threads of native code that read: nobody needs it.
   * The database calls it before it closes, which waits for these threads.
   */
  @Override
  void close();
}
