package io.topicdb.spark.select;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Turns times as users write them into µs since 1970, as topicdb.arguments.times does. */
final class Times {
  private static final long SECOND_US = 1_000_000;
  private static final Map<String, Long> UNIT_US =
      Map.of(
          "us", 1L,
          "ms", 1_000L,
          "s", SECOND_US,
          "m", 60 * SECOND_US,
          "min", 60 * SECOND_US,
          "h", 3_600 * SECOND_US,
          "d", 86_400 * SECOND_US,
          "w", 7 * 86_400 * SECOND_US);
  private static final Pattern DURATION =
      Pattern.compile("(\\d+(?:\\.\\d+)?)\\s*(us|ms|s|min|m|h|d|w)");
  private static final Pattern ISO =
      Pattern.compile(
          "(\\d{4}-\\d\\d-\\d\\d)(?:[T ](\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d{1,9})?)?))?"
              + "([Zz]|[-+]\\d\\d(?::?\\d\\d(?::?\\d\\d)?)?)?");

  private Times() {}

  /** Returns the µs of a text. Throws IllegalArgumentException, which names the argument. */
  static long parse(String given, String what) {
    String text = given.strip();
    if (text.matches("[0-9]+")) {
      return micros(text, what);
    }
    if (text.equals("now")) {
      return now();
    }
    Matcher duration = DURATION.matcher(text.startsWith("-") ? text.substring(1).strip() : "");
    if (duration.matches()) {
      return Math.max(0, now() - duration(duration, what, text.substring(1)));
    }
    long found = iso(given, text, what);
    if (found < 0) {
      throw outside(Texts.quoted(given), what);
    }
    return found;
  }

  private static long micros(String digits, String what) {
    try {
      return Long.parseLong(digits);
    } catch (NumberFormatException error) {
      throw outside(digits, what);
    }
  }

  private static long iso(String given, String text, String what) {
    Matcher match = ISO.matcher(text);
    LocalDateTime local = null;
    if (match.matches()) {
      try {
        String time = match.group(2) == null ? "00:00" : match.group(2);
        local = LocalDateTime.of(LocalDate.parse(match.group(1)), LocalTime.parse(time));
        if (match.group(3) != null) {
          ZoneOffset zone = ZoneOffset.of(match.group(3).toUpperCase(java.util.Locale.ROOT));
          return ChronoUnit.MICROS.between(Instant.EPOCH, local.toInstant(zone));
        }
      } catch (DateTimeException error) {
        local = null;
      }
    }
    if (local == null) {
      throw new IllegalArgumentException(
          what + ": " + Texts.quoted(given)
              + " is no time; write ISO 8601 with a zone ('2026-01-31T14:02:00Z') or relative"
              + " ('-24h')");
    }
    throw new IllegalArgumentException(
        what + ": " + Texts.quoted(given)
            + " has no time zone; end it with Z or +02:00, for example");
  }

  private static long duration(Matcher match, String what, String text) {
    double us = Double.parseDouble(match.group(1)) * UNIT_US.get(match.group(2));
    if (us > Long.MAX_VALUE) {
      throw new IllegalArgumentException(
          what + ": " + Texts.quoted(text) + " must be less than 2**63 microseconds");
    }
    if (Math.rint(us) <= 0) {
      throw new IllegalArgumentException(what + ": " + Texts.quoted(text) + " must be more than zero");
    }
    return (long) Math.rint(us);
  }

  private static IllegalArgumentException outside(String shown, String what) {
    return new IllegalArgumentException(
        what + ": " + shown + " is outside 1970-01-01 .. 2**63 microseconds");
  }

  private static long now() {
    return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
  }
}
