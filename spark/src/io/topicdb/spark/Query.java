package io.topicdb.spark;

import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import io.topicdb.spark.select.Top;
import io.topicdb.spark.vectors.Columns;
import java.io.Serializable;
import org.apache.spark.sql.types.StructType;

/**
 * What one read takes. Immutable; goes from the driver to the tasks.
 *
 * @param columns those that the query needs, in the order that it wants
 * @param limit the most messages of a task
 * @param top null unless only the newest or oldest messages are needed
 */
record Query(Options options, Selection selection, StructType columns, int limit, Top top)
    implements Serializable {
  static final int NO_LIMIT = Integer.MAX_VALUE;

  /** Takes all messages. */
  Query(Options options, Selection selection, StructType columns, int limit) {
    this(options, selection, columns, limit, null);
  }

  boolean wants(String column) {
    return columns.getFieldIndex(column).isDefined();
  }

  /** Returns whether values must be read: properties are in them. */
  boolean wantsValues() {
    return wants(Columns.VALUE) || wantsProperties();
  }

  boolean wantsProperties() {
    for (String name : columns.fieldNames()) {
      if (Columns.isProperty(name)) {
        return true;
      }
    }
    return false;
  }

  /** Returns the sum of the numbers of {@link MessageScan}, of all that batches are to have. */
  int wanted() {
    int wanted = wants(Columns.TOPIC) ? MessageScan.TOPICS : 0;
    wanted |= wants(Columns.VALUE) ? MessageScan.VALUES : 0;
    wanted |= wants(Columns.SERIAL) ? MessageScan.SERIALS : 0;
    return wanted | (wantsProperties() ? MessageScan.PROPERTIES : 0);
  }
}
