package io.topicdb.spark.functions;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.StructType;

/**
 * {@code time_bucket(width, timestamp)}: when the bucket of a timestamp begins. Buckets have one
 * width and follow one another from 1970 in UTC on, whatever the zone of the session is. Null if an
 * argument is null. Immutable; any thread may call it. Two for the same interval are equal: so Spark
 * knows that two calls are the same.
 *
 * @param width the type of the width
 */
public record TimeBucket(DataType width) implements ScalarFunction<Long> {
  /** How Spark calls the function where it pushes it into a read. */
  public static final String CANONICAL_NAME = "io.topicdb.time_bucket";

  static final String DESCRIPTION =
      "time_bucket(width, timestamp): when the bucket of a timestamp begins; the width is a constant"
          + " interval of days to seconds, such as INTERVAL '1' HOUR";
  private static final long serialVersionUID = 1;

  /** Makes it for intervals of any fields. */
  TimeBucket() {
    this(new DayTimeIntervalType(DayTimeIntervalType.DAY(), DayTimeIntervalType.SECOND()));
  }

  /** Spark calls it by this name, with µs. */
  public static long invoke(long width, long timestamp) {
    if (width <= 0) {
      throw new IllegalArgumentException(
          "time_bucket: the width must be positive, got " + width + " microseconds");
    }
    return timestamp - Math.floorMod(timestamp, width);
  }

  /** Returns the function for these arguments: an interval may be one of hours, say. */
  static BoundFunction bind(StructType arguments) {
    boolean isInterval =
        arguments.size() == 2 && arguments.apply(0).dataType() instanceof DayTimeIntervalType;
    return isInterval ? new TimeBucket(arguments.apply(0).dataType()) : new TimeBucket();
  }

  @Override
  public String name() {
    return "time_bucket";
  }

  @Override
  public String canonicalName() {
    return CANONICAL_NAME;
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {width, DataTypes.TimestampType};
  }

  @Override
  public DataType resultType() {
    return DataTypes.TimestampType;
  }

  @Override
  public Long produceResult(InternalRow arguments) {
    boolean hasNull = arguments.isNullAt(0) || arguments.isNullAt(1);
    return hasNull ? null : invoke(arguments.getLong(0), arguments.getLong(1));
  }
}
