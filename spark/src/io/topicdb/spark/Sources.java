package io.topicdb.spark;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.core.MessageSource;
import io.topicdb.spark.remote.RemoteSource;
import io.topicdb.spark.select.Options;
import java.util.List;

/** Opens databases: in their directory, or at servers that offer them. Has no state. */
final class Sources {
  private static final String NO_ID = "";

  private Sources() {}

  /** Opens a database on the driver. The caller closes it. */
  static MessageSource toPlan(Options options) {
    return options.servers() == null
        ? Database.open(options.path())
        : RemoteSource.openToPlan(options.servers());
  }

  /** Opens what a task reads. The caller closes it. */
  static MessageSource toRead(Query query, SlicesPartition partition) {
    Options options = query.options();
    return options.servers() == null
        ? Database.openShard(options.path(), partition.shard())
        : RemoteSource.openToRead(
            options.servers(),
            partition.database(),
            query.selection().filters(),
            partition.shard(),
            partition.until());
  }

  /** Returns the id of a database at servers, which tasks compare; empty for a directory. */
  static String idOf(MessageSource source, List<String> filters) {
    return source instanceof RemoteSource remote ? remote.database(filters) : NO_ID;
  }
}
