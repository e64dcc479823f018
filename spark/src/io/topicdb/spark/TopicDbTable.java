package io.topicdb.spark;

import io.topicdb.spark.select.Options;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A database in a query. Spark makes one for each use of the format. Immutable. */
final class TopicDbTable implements SupportsRead {
  private final StructType columns;

  TopicDbTable(StructType columns) {
    this.columns = columns;
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
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new TopicDbScanBuilder(Options.ofBatch(options.asCaseSensitiveMap()), columns);
  }
}
