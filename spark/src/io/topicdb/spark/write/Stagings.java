package io.topicdb.spark.write;

import io.topicdb.spark.core.Directory;
import io.topicdb.spark.core.Staging;
import io.topicdb.spark.remote.RemoteStaging;
import io.topicdb.spark.select.WriteOptions;

/** Opens what writes go to: the directory of a database, or the server that offers it. */
final class Stagings {
  private Stagings() {}

  /** Opens it. The caller closes it. Throws TopicDbException if the server does not answer. */
  static Staging open(WriteOptions options) {
    return options.servers() == null
        ? new Directory(options.path())
        : RemoteStaging.open(options.servers());
  }
}
