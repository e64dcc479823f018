package io.topicdb.spark;

import io.topicdb.spark.select.WriteOptions;
import io.topicdb.spark.vectors.Columns;
import io.topicdb.spark.write.JobWriteBuilder;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A database in a query. Spark makes one for each use of the format. Immutable. */
final class TopicDbTable implements SupportsRead, SupportsWrite {
  private static final Set<TableCapability> CAPABILITIES =
      Set.of(
          TableCapability.BATCH_READ,
          TableCapability.MICRO_BATCH_READ,
          TableCapability.BATCH_WRITE,
          TableCapability.STREAMING_WRITE,
          TableCapability.TRUNCATE, // so that it can say itself that it does not overwrite
          TableCapability.ACCEPT_ANY_SCHEMA);
  private final StructType given;
  private final StructType columns;
  private final Map<String, String> options;

  /**
   * @param given the schema that a user gave, or that rows to be written have
   * @param columns those that a read has
   * @param options of the table; those of a query come on top of them
   */
  TopicDbTable(StructType given, StructType columns, Map<String, String> options) {
    this.given = given;
    this.columns = columns;
    this.options = options;
  }

  @Override
  public String name() {
    return TopicDbProvider.NAME;
  }

  @Override
  @SuppressWarnings("deprecation") // Spark 3.5 has nothing else
  public StructType schema() {
    return columns;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return CAPABILITIES;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
    Columns.check(given, columns, TopicDbProvider.NAME);
    return new TopicDbScanBuilder(with(more), columns);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new JobWriteBuilder(
        WriteOptions.of(with(info.options())), info.schema(), info.queryId());
  }

  /** Returns the options of the table and of a query. The case of names does not matter. */
  private Map<String, String> with(CaseInsensitiveStringMap more) {
    Map<String, String> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    all.putAll(options);
    all.putAll(more.asCaseSensitiveMap());
    return all;
  }
}
