package io.topicdb.spark;

import io.topicdb.spark.vectors.Columns;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("topicdb")}: the entry of the connector. Spark makes one for each use of the
 * format, by the name in META-INF/services.
 */
public final class TopicDbProvider implements TableProvider, DataSourceRegister {
  /** Spark prefers it to a source in Python of the same name. */
  static final String NAME = "topicdb";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Versions.check();
    return Columns.of(options.asCaseSensitiveMap());
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true; // so that it can say itself what is wrong with a schema
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitions, Map<String, String> options) {
    Versions.check();
    return new TopicDbTable(schema, Columns.of(options), Map.of());
  }
}
