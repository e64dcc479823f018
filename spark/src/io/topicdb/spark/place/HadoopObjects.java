package io.topicdb.spark.place;

import io.topicdb.spark.core.ObjectSource;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The objects below a folder of one of Hadoop's file systems. The database that is open there holds
 * it, and closes it. Thread-safe.
 */
final class HadoopObjects implements ObjectSource {
  /** The most objects that are open at a time: in some file systems each takes a descriptor. */
  private static final int OPEN_MAX = 256;

  private final FileSystem files;
  private final Path root;
  private final LinkedHashMap<String, OpenObject> open = new LinkedHashMap<>(16, 0.75f, true);

  HadoopObjects(FileSystem files, Path root) {
    this.files = files;
    this.root = root;
  }

  @Override
  public byte[] read(byte[] name, long offset, byte[] to) {
    String object = new String(name, StandardCharsets.UTF_8);
    Thread thread = Thread.currentThread();
    if (thread.getContextClassLoader() == null) { // one that the core has started
      thread.setContextClassLoader(HadoopObjects.class.getClassLoader());
    }
    try {
      find(object).read(offset, to);
      return null;
    } catch (FileNotFoundException error) {
      return problem(MISSING, object + " is missing: " + error.getMessage());
    } catch (EOFException error) {
      return problem(DAMAGED, object + " ends before byte " + (offset + to.length));
    } catch (InterruptedIOException error) {
      return problem(INTERRUPTED, "reading " + object + ": " + error);
    } catch (IOException | RuntimeException error) {
      return problem(FAILED, "reading " + object + ": " + error);
    }
  }

  @Override
  public synchronized void close() {
    open.values().forEach(OpenObject::retire);
    open.clear();
  }

  private synchronized OpenObject find(String object) {
    OpenObject found = open.computeIfAbsent(object, name -> new OpenObject(new Path(root, name)));
    if (open.size() > OPEN_MAX) {
      Iterator<OpenObject> oldest = open.values().iterator();
      oldest.next().retire();
      oldest.remove();
    }
    return found;
  }

  private static byte[] problem(int code, String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    byte[] all = new byte[utf8.length + 1];
    all[0] = (byte) code;
    System.arraycopy(utf8, 0, all, 1, utf8.length);
    return all;
  }

  /**
   * An object, with a stream while it is read now and then. The HadoopObjects owns it. Thread-safe:
   * one call at a time.
   */
  private final class OpenObject {
    private final Path path;
    private FSDataInputStream stream;
    private boolean isRetired;

    OpenObject(Path path) {
      this.path = path;
    }

    synchronized void read(long offset, byte[] to) throws IOException {
      if (stream == null) {
        stream = open();
      }
      try {
        stream.readFully(offset, to, 0, to.length);
      } finally {
        if (isRetired) {
          closeStream();
        }
      }
    }

    /** Closes the stream, now and after each read that is still to come. */
    synchronized void retire() {
      isRetired = true;
      closeStream();
    }

    /** Opens it for reads here and there: each asks the store for what it needs, no more. */
    private FSDataInputStream open() throws IOException {
      try {
        return files.openFile(path).opt("fs.option.openfile.read.policy", "random").build().get();
      } catch (ExecutionException error) {
        if (error.getCause() instanceof IOException cause) {
          throw cause;
        }
        throw new IOException(error.getCause());
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("interrupted");
      }
    }

    private void closeStream() {
      FSDataInputStream closing = stream;
      stream = null;
      try {
        if (closing != null) {
          closing.close();
        }
      } catch (IOException error) {
        // Nothing was written, and what was read has been checked.
      }
    }
  }
}
