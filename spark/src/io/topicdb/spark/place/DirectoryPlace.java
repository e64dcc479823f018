package io.topicdb.spark.place;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.LogSource;
import java.util.List;

/** The directory of a database. */
record DirectoryPlace(String path) implements Place {
  @Override
  public LogSource open() {
    return Database.open(path);
  }

  @Override
  public LogSource openShard(int shard, long until, List<String> filters) {
    return Database.openShard(path, shard);
  }
}
