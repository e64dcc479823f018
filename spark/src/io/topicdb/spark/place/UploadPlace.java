package io.topicdb.spark.place;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.TopicDbException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * An upload at a URL: the one that was the newest when the driver looked. A job reads it to the end,
 * even if there is a newer one meanwhile.
 */
final class UploadPlace implements Place {
  private static final long serialVersionUID = 1;
  private static final String FOLDER = "manifests";
  private static final String PARTIAL = ".partial";

  private final String url;
  private final String manifest;
  private final HadoopSettings settings;

  private UploadPlace(String url, String manifest, HadoopSettings settings) {
    this.url = url;
    this.manifest = manifest;
    this.settings = settings;
  }

  /** Returns the newest upload. Its name sorts behind the others. Throws TopicDbException. */
  static UploadPlace newest(String url) {
    HadoopSettings settings = HadoopSettings.ofDriver();
    Path folder = new Path(url, FOLDER);
    try {
      FileStatus[] found = files(folder, settings).listStatus(folder);
      String newest =
          Arrays.stream(found)
              .filter(one -> one.isFile() && !one.getPath().getName().endsWith(PARTIAL))
              .map(one -> one.getPath().getName())
              .max(Comparator.naturalOrder())
              .orElseThrow(() -> new FileNotFoundException(folder.toString()));
      return new UploadPlace(url, FOLDER + "/" + newest, settings);
    } catch (FileNotFoundException error) {
      throw new TopicDbException(
          "NotFoundError",
          "there is no upload at " + url + ": `topicdb upload` makes one of a database", error);
    } catch (IOException error) {
      throw failure("listing " + folder, error);
    }
  }

  @Override
  public LogSource open() {
    return open(Database.ALL_SHARDS);
  }

  @Override
  public LogSource openShard(int shard, long until, List<String> filters) {
    return open(shard);
  }

  private Database open(int shard) {
    Path root = new Path(url);
    Path path = new Path(root, manifest);
    try {
      FileSystem files = files(root, settings);
      byte[] content;
      try (FSDataInputStream stream = files.open(path)) {
        content = stream.readAllBytes();
      }
      return Database.openUpload(url, manifest, content, new HadoopObjects(files, root), shard);
    } catch (FileNotFoundException error) {
      throw new TopicDbException(
          "NotFoundError",
          "the upload " + path + " is gone: it was removed when a newer one was made", error);
    } catch (IOException error) {
      throw failure("reading " + path, error);
    }
  }

  private static FileSystem files(Path path, HadoopSettings settings) throws IOException {
    try {
      return path.getFileSystem(settings.configuration());
    } catch (UncheckedIOException | IllegalArgumentException error) {
      throw new IOException(error);
    }
  }

  private static TopicDbException failure(String doing, IOException error) {
    return new TopicDbException("StorageError", doing + ": " + error, error);
  }
}
