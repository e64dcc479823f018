package io.topicdb.spark.place;

import io.topicdb.spark.core.ObjectSource;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Set;
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
  private final Set<Thread> ofCore = new HashSet<>(); // threads of the core that are reading
  private boolean isClosed;

  HadoopObjects(FileSystem files, Path root) {
    this.files = files;
    this.root = root;
  }

  @Override
  public byte[] read(byte[] name, long bytes, long offset, byte[] to) {
    String object = new String(name, StandardCharsets.UTF_8);
    boolean isOfCore = enter(Thread.currentThread());
    try {
      find(object, bytes).read(offset, to);
      return null;
    } catch (FileNotFoundException error) {
      return problem(MISSING, object + " is missing: " + error.getMessage());
    } catch (EOFException error) {
      return problem(DAMAGED, object + " ends before byte " + (offset + to.length));
    } catch (InterruptedIOException error) {
      return problem(INTERRUPTED, "reading " + object + ": " + error);
    } catch (IOException | RuntimeException error) {
      return problem(FAILED, "reading " + object + ": " + error);
    } finally {
      if (isOfCore) {
        leave(Thread.currentThread());
      }
    }
  }

  @Override
  public synchronized void close() {
    isClosed = true;
    ofCore.forEach(Thread::interrupt);
    open.values().forEach(OpenObject::retire);
    open.clear();
  }

  /** Returns whether the core has started the thread: those of Java have a class loader. */
  private synchronized boolean enter(Thread thread) {
    if (thread.getContextClassLoader() != null) {
      return false;
    }
    thread.setContextClassLoader(HadoopObjects.class.getClassLoader());
    ofCore.add(thread);
    if (isClosed) {
      thread.interrupt();
    }
    return true;
  }

  private synchronized void leave(Thread thread) {
    ofCore.remove(thread);
    thread.setContextClassLoader(null);
  }

  private synchronized OpenObject find(String object, long bytes) {
    OpenObject found =
        open.computeIfAbsent(object, name -> new OpenObject(new Path(root, name), bytes));
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
   * An object, with streams while it is read now and then: one for each read at the same time. The
   * HadoopObjects owns it. Thread-safe.
   */
  private final class OpenObject {
    private final Path path;
    private final long bytes;
    private final ArrayDeque<FSDataInputStream> idle = new ArrayDeque<>();
    private boolean isRetired;

    OpenObject(Path path, long bytes) {
      this.path = path;
      this.bytes = bytes;
    }

    void read(long offset, byte[] to) throws IOException {
      FSDataInputStream stream = take();
      boolean isSound = false;
      try {
        stream.readFully(offset, to, 0, to.length);
        isSound = true;
      } finally {
        give(stream, isSound);
      }
    }

    /** Closes the streams, now and after each read that is still to come. */
    synchronized void retire() {
      isRetired = true;
      idle.forEach(OpenObject::close);
      idle.clear();
    }

    private FSDataInputStream take() throws IOException {
      synchronized (this) {
        if (!idle.isEmpty()) {
          return idle.pop();
        }
      }
      return open();
    }

    private void give(FSDataInputStream stream, boolean isSound) {
      synchronized (this) {
        if (isSound && !isRetired) {
          idle.push(stream);
          return;
        }
      }
      close(stream);
    }

    /**
     * Opens it for reads here and there: each asks the store for what it needs, no more. With its
     * length, S3 is not asked whether it is there.
     */
    private FSDataInputStream open() throws IOException {
      try {
        return files
            .openFile(path)
            .opt("fs.option.openfile.read.policy", "random")
            .opt("fs.option.openfile.length", Long.toString(bytes))
            .build()
            .get();
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

    private static void close(FSDataInputStream stream) {
      try {
        stream.close();
      } catch (IOException error) {
        // Nothing was written, and what was read has been checked.
      }
    }
  }
}
