package io.topicdb.spark.place;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.MessageSource;
import java.util.List;

/** The directory of a database. */
record DirectoryPlace(String path) implements Place {
  @Override
  public MessageSource open() {
    return Database.open(path);
  }

  @Override
  public MessageSource openShard(int shard, long until, List<String> filters) {
    return Database.openShard(path, shard);
  }
}
