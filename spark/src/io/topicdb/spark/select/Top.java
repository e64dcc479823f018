package io.topicdb.spark.select;

import java.io.Serializable;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;

/**
 * A query wants the newest or the oldest messages alone, at most this many. Immutable.
 *
 * @param isNewest whether the newest ones are wanted
 */
public record Top(boolean isNewest, int messages) implements Serializable {
  /** Returns what these orders ask for, or null if they do not begin with that of timestamps. */
  public static Top of(SortOrder[] orders, int messages) {
    boolean isByTime =
        orders.length > 0
            && orders[0].expression() instanceof NamedReference reference
            && reference.fieldNames().length == 1
            && reference.fieldNames()[0].equals("timestamp");
    return isByTime ? new Top(orders[0].direction() == SortDirection.DESCENDING, messages) : null;
  }

  @Override
  public String toString() {
    return messages + (isNewest ? " newest" : " oldest");
  }
}
