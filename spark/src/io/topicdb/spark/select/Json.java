package io.topicdb.spark.select;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Reads JSON: objects become maps, arrays lists, whole numbers Long and others Double, and null is
 * null. Writes it as Python does by default, character by character. The connector has so little
 * JSON that a library would not pay. Not thread-safe; one object reads one text.
 */
public final class Json {
  /** Deeper texts are refused: they would overflow the stack. */
  private static final int DEPTH_MAX = 100;

  private static final String ESCAPED = "\"\\\b\f\n\r\t";
  private static final String ESCAPES = "\"\\bfnrt";

  private final String text;
  private int at;
  private int depth;

  private Json(String text) {
    this.text = text;
  }

  /** Returns the value of a text. Throws IllegalArgumentException if it is no JSON. */
  public static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value();
    json.skipSpace();
    if (json.at != text.length()) {
      throw json.fault();
    }
    return value;
  }

  /** Returns the text of a value: a map from texts or whole numbers, a text, or a whole number. */
  public static String write(Object value) {
    if (value instanceof Map<?, ?> members) {
      return members.entrySet().stream()
          .map(one -> quoted(one.getKey().toString()) + ": " + write(one.getValue()))
          .collect(Collectors.joining(", ", "{", "}"));
    }
    return value instanceof String text ? quoted(text) : value.toString();
  }

  /** Returns a text in quotes. */
  public static String quoted(String text) {
    StringBuilder found = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      int escape = ESCAPED.indexOf(c);
      if (escape >= 0) {
        found.append('\\').append(ESCAPES.charAt(escape));
      } else if (c < ' ' || c > '~') {
        found.append(String.format("\\u%04x", (int) c));
      } else {
        found.append(c);
      }
    }
    return found.append('"').toString();
  }

  private Object value() {
    skipSpace();
    if (++depth > DEPTH_MAX) {
      throw fault();
    }
    try {
      return switch (peek()) {
        case '{' -> object();
        case '[' -> array();
        case '"' -> string();
        case 't' -> word("true", true);
        case 'f' -> word("false", false);
        case 'n' -> word("null", null);
        default -> number();
      };
    } finally {
      depth--;
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> members = new LinkedHashMap<>();
    at++;
    if (takes('}')) {
      return members;
    }
    do {
      skipSpace();
      if (peek() != '"') {
        throw fault();
      }
      String name = string();
      if (!takes(':')) {
        throw fault();
      }
      members.put(name, value());
    } while (takes(','));
    if (!takes('}')) {
      throw fault();
    }
    return members;
  }

  private List<Object> array() {
    List<Object> items = new ArrayList<>();
    at++;
    if (takes(']')) {
      return items;
    }
    do {
      items.add(value());
    } while (takes(','));
    if (!takes(']')) {
      throw fault();
    }
    return items;
  }

  private String string() {
    StringBuilder found = new StringBuilder();
    at++;
    for (char c = take(); c != '"'; c = take()) {
      if (c < ' ') {
        throw fault();
      }
      found.append(c == '\\' ? escaped() : c);
    }
    return found.toString();
  }

  private char escaped() {
    char c = take();
    return switch (c) {
      case '"', '\\', '/' -> c;
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'n' -> '\n';
      case 'r' -> '\r';
      case 't' -> '\t';
      case 'u' -> unicode();
      default -> throw fault();
    };
  }

  private char unicode() {
    int code = 0;
    for (int i = 0; i < 4; i++) {
      int digit = Character.digit(take(), 16);
      if (digit < 0) {
        throw fault();
      }
      code = 16 * code + digit;
    }
    return (char) code;
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw fault();
    }
    at += word.length();
    return value;
  }

  private Object number() {
    int begin = at;
    while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String digits = text.substring(begin, at);
    try {
      if (digits.matches("-?(0|[1-9][0-9]*)")) {
        return Long.valueOf(digits);
      }
      if (digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?")) {
        return Double.valueOf(digits);
      }
    } catch (NumberFormatException error) {
      throw fault(); // too large
    }
    throw fault();
  }

  private boolean takes(char wanted) {
    skipSpace();
    if (peek() != wanted) {
      return false;
    }
    at++;
    return true;
  }

  private void skipSpace() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() {
    return at < text.length() ? text.charAt(at) : '\0';
  }

  private char take() {
    if (at == text.length()) {
      throw fault();
    }
    return text.charAt(at++);
  }

  private IllegalArgumentException fault() {
    return new IllegalArgumentException("no JSON at character " + at);
  }
}
