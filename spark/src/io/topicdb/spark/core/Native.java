package io.topicdb.spark.core;

import org.apache.spark.TaskContext;

/**
 * The functions of bindings_java, as they are. Only the classes of this folder call them: they own
 * the handles. Handles are addresses, and a handle is closed exactly once. Texts are UTF-8. Every
 * function throws TopicDbException.
 */
final class Native {
  static {
    NativeLibrary.load();
  }

  private Native() {}

  static native byte[] version();

  static native void checkFilter(byte[] filter);

  static native void checkTopic(byte[] topic);

  /** Opens a database for reading: this shard of it, or all shards for -1. Returns a handle. */
  static native long open(byte[] path, int shard);

  /** Opens an upload for reading, as {@link #open} does a directory. */
  static native long openUpload(
      byte[] url, byte[] name, byte[] manifest, ObjectSource objects, int shard);

  static native void close(long database);

  /** Lets it show what was written since. */
  static native void refresh(long database);

  /**
   * Waits until reads see what they must.
   *
   * @param serials shards and serials by turns; null stands for all that was acknowledged
   */
  static native void see(long database, long[] serials, long timeoutMicros);

  /** Returns the last serial of each open shard: shards and serials by turns. */
  static native long[] serials(long database);

  /**
   * Returns retention classes (byte[][]), and of each slab the shard, the generation and whether it
   * is read-only (long[]).
   */
  static native Object[] slabs(long database);

  /**
   * Returns retention classes (byte[][]) and the numbers of slices (long[], in the order of {@link
   * Slice#NUMBERS}).
   *
   * @param filters null stands for every topic
   * @param range start and end, {@link Slice#ABSENT} for none
   * @param after shards and serials by turns
   * @param until the same
   */
  static native Object[] slices(
      long database, byte[][] filters, long[] range, long[] after, long[] until, long bytesMax);

  /**
   * Begins a scan of slices, which are given as {@link #slices} returns them. Returns a handle.
   *
   * @param wanted the sum of the numbers of what is wanted, see {@link SliceScan}; the core leaves
   *     values unread that are not
   */
  static native long newScan(
      long database, byte[][] filters, byte[][] classes, long[] numbers, int wanted);

  /**
   * Begins to read commits of all open shards in their order. Returns a handle like that of {@link
   * #newScan}.
   *
   * @param after shards and serials by turns
   * @param until the same; it waits for more commits of shards that are not in it
   */
  static native long newTail(long database, byte[][] filters, long[] after, long[] until);

  /**
   * Measures commits of a shard, and returns the last one, and the messages and bytes of them.
   *
   * @param filters null stands for every topic
   * @param range the serials after which and up to which, and the time from which messages count;
   *     {@link Slice#ABSENT} for none, but not for the first
   * @param limits the most messages and bytes, but at least one commit
   * @param isOfBlocks whether it may end earlier, where a block ends
   */
  static native long[] measureLog(
      long database,
      int shard,
      byte[][] filters,
      long[] range,
      long[] limits,
      boolean isOfBlocks);

  /**
   * Reads the next batch, and returns a handle that keeps its memory, or 0 at the end.
   *
   * @param wanted the sum of the numbers of what is wanted, see {@link SliceScan}
   * @param found gets the number of rows, the bytes of topics and values, the address of the
   *     serials, and then six numbers for each column and its children: see {@link Batch}
   */
  static native long next(long scan, int rowsMax, long bytesMax, int wanted, long[] found);

  /**
   * Returns a handle as {@link #next} does, for messages whose columns Java has: see {@link
   * GivenBatch}.
   */
  static native long lend(int rows, long[] addresses, int wanted, long[] found);

  /**
   * Returns a handle like that of {@link #newScan} that unpacks parcels, and has none yet.
   *
   * @param wanted as for {@link #newScan}
   */
  static native long newParcels(int wanted);

  /** Begins a parcel, whose memory stays until the next one, for a handle of {@link #newParcels}. */
  static native void beginParcel(long scan, long address, long size);

  /** Returns what a scan has read so far: the numbers of {@link ReadCounts}, in their order. */
  static native long[] counters(long scan);

  static native void release(long batch);

  static native void endScan(long scan);

  /**
   * Counts the messages of slices, which are given as {@link #slices} returns them, in groups.
   * Returns the topics of the groups, one behind the other (byte[]), and their numbers (long[], in
   * the order of {@link Groups}).
   *
   * @param levels how many levels of topics make a group, -1 for all
   * @param span of a group in µs, {@link Slice#ABSENT} for none
   * @param groupsMax the most groups; more are a ValueError
   * @param rowsMax the most messages that may be read one by one; more are a ValueError
   */
  static native Object[] summarize(
      long database,
      byte[][] filters,
      byte[][] classes,
      long[] numbers,
      int levels,
      long span,
      long groupsMax,
      long rowsMax);

  /** Returns whether a database shards by key. */
  static native boolean shardsByKey(byte[] path);

  /** Begins to stage messages of a job. Returns a handle. */
  static native long stage(byte[] path, byte[] job, boolean dropsMalformed);

  /**
   * Stages rows: of the columns topic, timestamp, value and key, three addresses each. They are
   * those of validity bits, of offsets (or of the timestamps), and of bytes; a column whose second
   * one is 0 is not there.
   */
  static native void append(long stage, int rows, long[] addresses);

  /** Returns the name of the staged file. {@code counts} gets messages, bytes and malformed ones. */
  static native byte[] finish(long stage, long[] counts);

  static native void endStage(long stage);

  /** Commits a job, and returns the shards that are open elsewhere and have still to apply it. */
  static native long[] commitJob(
      byte[] path,
      byte[] job,
      byte[][] files,
      byte[] sequence,
      long number,
      long malformed,
      long timeoutUs);

  static native void abortJob(byte[] path, byte[] job);

  /** Returns whether the task of this thread shall end. Native code calls it now and then. */
  static boolean isInterrupted() {
    TaskContext task = TaskContext.get();
    return Thread.currentThread().isInterrupted() || (task != null && task.isInterrupted());
  }
}
