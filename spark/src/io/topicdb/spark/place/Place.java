package io.topicdb.spark.place;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.Urls;
import java.io.Serializable;

/**
 * Where a read finds its database. The driver makes it when it plans a job, and tasks open the same:
 * it goes to them. Immutable.
 */
public interface Place extends Serializable {
  /** Opens all shards. The caller closes it. Throws TopicDbException. */
  Database open();

  /** Opens one shard. The caller closes it. Throws TopicDbException. */
  Database openShard(int shard);

  /**
   * Returns the directory with this path, or the newest upload at this URL. Throws TopicDbException
   * if there is none at the URL.
   */
  static Place of(String path) {
    return Urls.isUrl(path) ? UploadPlace.newest(path) : new DirectoryPlace(path);
  }
}
