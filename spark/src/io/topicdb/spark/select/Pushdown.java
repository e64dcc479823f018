package io.topicdb.spark.select;

import io.topicdb.spark.core.Database;
import io.topicdb.spark.functions.TopicMatches;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Narrows a selection by predicates of SQL, as topicdb.spark.pushdown does. A scan builder owns it.
 * Not thread-safe.
 */
public final class Pushdown {
  /** Spark's name for a function that is a predicate. */
  private static final String CALL = "BOOLEAN_EXPRESSION";

  private static final List<String> NEVER_NULL = List.of("topic", "timestamp", "value");

  /** What a comparison is if its sides change places. */
  private static final Map<String, String> TURNED =
      Map.of("=", "=", "<=>", "<=>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

  private Selection selection;
  private final List<Predicate> pushed = new ArrayList<>();

  public Pushdown(Selection selection) {
    this.selection = selection;
  }

  /** Returns the topics and times that the predicates leave. */
  public Selection selection() {
    return selection;
  }

  /** Returns the predicates that have narrowed the selection. */
  public Predicate[] pushed() {
    return pushed.toArray(new Predicate[0]);
  }

  /** Narrows the selection, and returns the predicates that Spark still has to check. */
  public Predicate[] push(Predicate[] predicates) {
    List<Predicate> rest = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Selection before = selection;
      boolean isExact = pushOne(predicate);
      if (!isExact) {
        rest.add(predicate);
      }
      if (isExact || !selection.equals(before)) {
        pushed.add(predicate);
      }
    }
    return rest.toArray(new Predicate[0]);
  }

  /** Narrows the selection by a predicate, and returns whether nothing is left to check. */
  private boolean pushOne(Predicate predicate) {
    Expression[] sides = predicate.children();
    if (sides.length == 1 && sides[0] instanceof UserDefinedScalarFunc call) {
      return predicate.name().equals(CALL) && pushMatch(call);
    }
    if (sides.length == 2 && sides[0] instanceof Literal && sides[1] instanceof NamedReference) {
      String turned = TURNED.get(predicate.name());
      return turned != null && pushOn(column(sides[1]), turned, List.of((Literal<?>) sides[0]));
    }
    String column = sides.length == 0 ? null : column(sides[0]);
    List<Literal<?>> literals = new ArrayList<>();
    for (int i = 1; i < sides.length; i++) {
      if (!(sides[i] instanceof Literal<?> literal)) {
        return false;
      }
      literals.add(literal);
    }
    return pushOn(column, predicate.name(), literals);
  }

  /** Narrows the selection by {@code topic_matches('a/#', topic)}. */
  private boolean pushMatch(UserDefinedScalarFunc call) {
    Expression[] arguments = call.children();
    if (!call.canonicalName().equals(TopicMatches.CANONICAL_NAME)
        || !"topic".equals(column(arguments[1]))
        || !(arguments[0] instanceof Literal<?> filter && filter.value() instanceof UTF8String)) {
      return false;
    }
    String text = filter.value().toString();
    Database.checkFilter(text);
    selection = selection.both(new Selection(List.of(text), null, null));
    return true;
  }

  private boolean pushOn(String column, String name, List<Literal<?>> literals) {
    if (column == null || !NEVER_NULL.contains(column)) {
      return false;
    }
    if (name.equals("IS_NOT_NULL")) {
      return true;
    }
    if (name.equals("IS_NULL")) {
      selection = Selection.NOTHING;
      return true;
    }
    return switch (column) {
      case "topic" -> pushTopic(name, literals);
      case "timestamp" -> pushTime(name, literals);
      default -> false;
    };
  }

  private boolean pushTopic(String name, List<Literal<?>> literals) {
    List<String> texts = new ArrayList<>();
    for (Literal<?> literal : literals) {
      if (literal.value() instanceof UTF8String text) {
        texts.add(text.toString());
        if (!UTF8String.fromString(text.toString()).equals(text)) {
          return false; // no UTF-8
        }
      } else if (literal.value() != null) {
        return false;
      }
    }
    switch (name) {
      case "=", "<=>" -> {
        if (texts.isEmpty()) {
          return false; // null: Spark knows what that means
        }
        selection = selection.both(Selection.ofTopics(texts));
        return true;
      }
      case "IN" -> {
        TreeSet<String> topics = new TreeSet<>(texts);
        if (topics.size() > Selection.TOPICS_MAX) {
          return false;
        }
        selection = selection.both(Selection.ofTopics(topics));
        return true;
      }
      case "STARTS_WITH" -> {
        if (!texts.isEmpty()) {
          selection = selection.both(Selection.ofPrefix(texts.get(0)));
        }
        return false;
      }
      default -> {
        return false;
      }
    }
  }

  private boolean pushTime(String name, List<Literal<?>> literals) {
    TreeSet<Long> times = new TreeSet<>();
    for (Literal<?> literal : literals) {
      if (literal.value() instanceof Long time) {
        times.add(Math.max(time, -1)); // no message is older than 1970
      } else if (literal.value() != null) {
        return false;
      }
    }
    if (name.equals("IN")) {
      if (times.isEmpty()) {
        selection = Selection.NOTHING;
        return true;
      }
      selection =
          selection
              .both(Selection.ofTime(">=", times.first()))
              .both(Selection.ofTime("<=", times.last()));
      return times.size() == 1;
    }
    String comparison = name.equals("<=>") ? "=" : name;
    if (times.isEmpty() || !TURNED.containsKey(comparison)) {
      return false;
    }
    selection = selection.both(Selection.ofTime(comparison, times.first()));
    return true;
  }

  private static String column(Expression side) {
    if (side instanceof NamedReference reference && reference.fieldNames().length == 1) {
      return reference.fieldNames()[0];
    }
    return null;
  }
}
