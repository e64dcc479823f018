package io.topicdb.spark;

import io.topicdb.spark.select.Options;
import io.topicdb.spark.select.Selection;
import io.topicdb.spark.summary.Aggregates;
import io.topicdb.spark.summary.SummaryReader;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that each task finds for its slices, and that Spark puts together; on the driver.
 * Immutable: it plans tasks when Spark asks for them.
 */
final class SummaryScan implements Scan, Batch {
  private final Options options;
  private final Selection selection;
  private final Aggregates aggregates;
  private final String description;

  /**
   * @param description what EXPLAIN shows
   */
  SummaryScan(Options options, Selection selection, Aggregates aggregates, String description) {
    this.options = options;
    this.selection = selection;
    this.aggregates = aggregates;
    this.description = description;
  }

  @Override
  public StructType readSchema() {
    return aggregates.schema();
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    SlicePlan plan = SlicePlan.of(options, selection, false);
    if (plan.tasks().isEmpty() && !aggregates.isGrouped()) {
      plan = new SlicePlan(plan.place(), List.of(List.of())); // a count of nothing is a row, too
    }
    return plan.partitions();
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new Readers(options, selection.filters(), aggregates);
  }

  /** Makes the reader of a task. Immutable; goes from the driver to the tasks. */
  private record Readers(Options options, List<String> filters, Aggregates aggregates)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      SlicesPartition mine = (SlicesPartition) partition;
      return new SummaryReader(mine.place(), options, filters, aggregates, mine.slices());
    }
  }
}
