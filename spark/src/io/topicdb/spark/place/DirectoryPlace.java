package io.topicdb.spark.place;

import io.topicdb.spark.core.Database;

/** The directory of a database. */
record DirectoryPlace(String path) implements Place {
  @Override
  public Database open() {
    return Database.open(path);
  }

  @Override
  public Database openShard(int shard) {
    return Database.openShard(path, shard);
  }
}
