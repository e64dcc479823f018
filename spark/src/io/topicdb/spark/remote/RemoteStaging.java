package io.topicdb.spark.remote;

import io.topicdb.spark.core.Directory;
import io.topicdb.spark.core.Staging;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Servers;
import io.topicdb.spark.types.Staged;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Stages messages for a database of a server: in a folder of this machine, whose files go there. The
 * source in Python does the same (topicdb.remote.client.staging).
 */
public final class RemoteStaging implements Staging {
  private static final Set<String> TRANSIENT = Set.of("LockedError", "UnavailableError");
  private static final int CHUNK_BYTES = 8 << 20;
  private static final long WAIT_US = 500_000;
  private static final long PAUSE_MS = 100;
  /** The place of the shards that have still to follow, among the fields of a receipt. */
  private static final int PENDING = 2;

  private static final long SECOND_NS = 1_000_000_000;

  private final Connection connection;

  private RemoteStaging(Connection connection) {
    this.connection = connection;
  }

  /** Connects to the first server, which must be the only one. Throws TopicDbException. */
  public static RemoteStaging open(Servers servers) {
    return new RemoteStaging(new Connection(servers.addresses().get(0), servers));
  }

  @Override
  public void check() {
    connection.call("stage.files");
  }

  @Override
  public boolean shardsByKey() {
    return connection.told(
        () -> "key".equals(((Map<?, ?>) connection.hello().get("schema")).get("shard_by")));
  }

  @Override
  public TaskWriter open(String job, boolean dropsMalformed) {
    Map<?, ?> files = (Map<?, ?>) connection.call("stage.files");
    try {
      Path folder = Files.createTempDirectory("topicdb-job-");
      try {
        for (Map.Entry<?, ?> file : files.entrySet()) {
          Files.write(folder.resolve((String) file.getKey()), (byte[]) file.getValue());
        }
        TaskWriter writer = new Directory(folder.toString()).open(job, dropsMalformed);
        return new Uploader(connection, job, folder, writer);
      } catch (IOException | RuntimeException | Error error) {
        remove(folder);
        throw error;
      }
    } catch (IOException error) {
      throw fault(error);
    }
  }

  /**
   * {@inheritDoc}
   *
   * <p>If the connection breaks, it asks again until the time is over. A job that was committed then
   * is not committed twice.
   */
  @Override
  public long[] commit(
      String job, List<Staged> tasks, String sequence, long number, long timeoutSeconds) {
    long deadline = System.nanoTime() + timeoutSeconds * SECOND_NS;
    while (true) {
      boolean isOver = System.nanoTime() - deadline >= 0;
      try {
        List<?> committed =
            (List<?>)
                connection.call(
                    "stage.commit",
                    job,
                    Staging.filesOf(tasks),
                    sequence,
                    number,
                    Staging.malformedOf(tasks),
                    WAIT_US);
        long[] pending = pendingOf(committed);
        if (pending.length == 0 || isOver) {
          return pending;
        }
      } catch (TopicDbException error) {
        if (isOver || !TRANSIENT.contains(error.name())) {
          throw error;
        }
        pause();
      }
    }
  }

  /** Returns the shards that have still to follow, of the fields of a receipt. */
  private long[] pendingOf(List<?> committed) {
    return connection.told(
        () ->
            ((List<?>) committed.get(PENDING)).stream().mapToLong(shard -> (Long) shard).toArray());
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new TopicDbException("InterruptedError", "the commit was interrupted", error);
    }
  }

  @Override
  public void abort(String job) {
    connection.call("stage.abort", job);
  }

  @Override
  public void close() {
    connection.close();
  }

  private static TopicDbException fault(IOException error) {
    return new TopicDbException(
        "StorageError", "staging in the folder for temporary files: " + error, error);
  }

  private static void remove(Path folder) throws IOException {
    List<Path> paths = new ArrayList<>();
    try (Stream<Path> found = Files.walk(folder)) {
      found.sorted(Comparator.reverseOrder()).forEach(paths::add);
    }
    for (Path path : paths) {
      Files.delete(path);
    }
  }

  /** Stages in a folder, and sends its files. The one that lists the others goes last. */
  private record Uploader(Connection connection, String job, Path folder, TaskWriter writer)
      implements TaskWriter {
    @Override
    public void append(int rows, long[] addresses) {
      writer.append(rows, addresses);
    }

    @Override
    public Staged finish() {
      Staged staged = writer.finish();
      if (staged.file().isEmpty()) {
        return staged;
      }
      Path directory = folder.resolve("jobs").resolve(job);
      try {
        List<Path> files = new ArrayList<>();
        try (Stream<Path> found = Files.list(directory)) {
          found.filter(file -> file.toString().endsWith(".pages")).sorted().forEach(files::add);
        }
        files.add(directory.resolve(staged.file()));
        for (Path file : files) {
          send(file);
        }
      } catch (IOException error) {
        throw fault(error);
      }
      return staged;
    }

    private void send(Path file) throws IOException {
      long allowed = (Long) connection.hello().get("append_bytes_max");
      int chunk = (int) Math.min(CHUNK_BYTES, allowed);
      long size = Files.size(file);
      try (InputStream data = Files.newInputStream(file)) {
        for (long offset = 0; offset < size; ) {
          byte[] bytes = data.readNBytes(chunk);
          String name = file.getFileName().toString();
          connection.call("stage.upload", job, name, offset, bytes, size);
          offset += bytes.length;
        }
      }
    }

    @Override
    public void close() {
      try {
        writer.close();
      } finally {
        try {
          if (Files.exists(folder)) {
            remove(folder);
          }
        } catch (IOException error) {
          throw fault(error);
        }
      }
    }
  }
}
