package io.topicdb.spark.place;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.core.Urls;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.types.AtLeast;
import java.io.Serializable;
import java.util.List;

/**
 * Where a read finds its database. The driver makes it when it plans a job, and tasks open the same:
 * it goes to them. Immutable.
 */
public interface Place extends Serializable {
  /** Opens all shards, on the driver. The caller closes it. Throws TopicDbException. */
  LogSource open();

  /**
   * Opens all shards, on the driver, and waits until reads see what they must.
   *
   * @param filters of the read; null stands for every topic
   */
  default LogSource open(AtLeast needs, List<String> filters) {
    LogSource source = open();
    try {
      source.see(needs, filters);
      return source;
    } catch (RuntimeException | Error error) {
      source.close();
      throw error;
    }
  }

  /**
   * Opens what a task reads. The caller closes it. Throws TopicDbException.
   *
   * @param until the last commit of the shard that it reads
   * @param filters of the read; null stands for every topic
   */
  LogSource openShard(int shard, long until, List<String> filters);

  /**
   * Returns the place for the tasks of a job.
   *
   * @param source with which the job was planned
   * @param filters of the read; null stands for every topic
   */
  default Place planned(MessageSource source, List<String> filters) {
    return this;
  }

  /**
   * Returns the place that options name: servers, a directory, or the newest upload at a URL. Throws
   * TopicDbException if there is none at the URL.
   */
  static Place of(Options options) {
    if (options.servers() != null) {
      return new ServersPlace(options.servers(), "");
    }
    String path = options.path();
    return Urls.isUrl(path) ? UploadPlace.newest(path) : new DirectoryPlace(path);
  }
}
