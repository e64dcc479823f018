package io.topicdb.spark.functions;

import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.StructType;

/**
 * A function of two arguments before Spark knows what they are. Immutable.
 *
 * @param function the function for the usual types
 * @param bind returns the function for the types of given arguments
 * @param description begins with the call, as one writes it
 */
record TwoArguments(
    ScalarFunction<?> function, Function<StructType, BoundFunction> bind, String description)
    implements UnboundFunction {
  private static final long serialVersionUID = 1;

  @Override
  public String name() {
    return function.name();
  }

  /** Spark then checks the types, and converts what it can. */
  @Override
  public BoundFunction bind(StructType arguments) {
    if (arguments.size() != function.inputTypes().length) {
      throw new UnsupportedOperationException(
          "two arguments are needed, got " + arguments.size() + ": " + description);
    }
    return bind.apply(arguments);
  }
}
