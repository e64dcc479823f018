package io.topicdb.spark.place;

import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.remote.RemoteSource;
import io.topicdb.spark.select.Servers;
import io.topicdb.spark.types.AtLeast;
import java.util.List;

/**
 * Servers that offer a database.
 *
 * @param database its id, once a job is planned: tasks read no other
 */
record ServersPlace(Servers servers, String database) implements Place {
  @Override
  public LogSource open() {
    return RemoteSource.openToPlan(servers, AtLeast.NOTHING, null);
  }

  @Override
  public LogSource open(AtLeast needs, List<String> filters) {
    return RemoteSource.openToPlan(servers, needs, filters);
  }

  @Override
  public LogSource openShard(int shard, long until, List<String> filters) {
    return RemoteSource.openToRead(servers, database, filters, shard, until);
  }

  @Override
  public Place planned(MessageSource source, List<String> filters) {
    return new ServersPlace(servers, source.extent(filters).database());
  }
}
