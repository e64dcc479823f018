package io.topicdb.spark.select;

/** Shows texts in errors. */
final class Texts {
  private Texts() {}

  /** Returns the text in quotes, as Python's {@code repr} writes it. */
  static String quoted(String text) {
    char quote = text.indexOf('\'') >= 0 && text.indexOf('"') < 0 ? '"' : '\'';
    StringBuilder shown = new StringBuilder().append(quote);
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == quote || c == '\\') {
        shown.append('\\').append(c);
      } else if (c == '\n') {
        shown.append("\\n");
      } else if (c == '\r') {
        shown.append("\\r");
      } else if (c == '\t') {
        shown.append("\\t");
      } else if (c < ' ' || c == 0x7f) {
        shown.append(String.format("\\x%02x", (int) c));
      } else {
        shown.append(c);
      }
    }
    return shown.append(quote).toString();
  }
}
