package io.topicdb.spark.core;

import java.util.regex.Pattern;

/** Tells the URL of an upload from the path of a directory. */
public final class Urls {
  private static final Pattern URL = Pattern.compile("^[a-zA-Z][a-zA-Z0-9+.-]+:/");

  private Urls() {}

  /** Returns whether a path is a URL, such as {@code s3a://bucket/folder}, and no directory. */
  public static boolean isUrl(String path) {
    return URL.matcher(path).find();
  }
}
