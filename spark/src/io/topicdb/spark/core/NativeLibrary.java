package io.topicdb.spark.core;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Loads the native library that the JAR brings along, once for each class loader.
 *
 * <p>A JVM loads a file as a library for one class loader only, and Spark has several: that of the
 * session and that of the executor. So each loads a copy of its own, which is removed at once: the
 * JVM keeps what it has loaded.
 */
public final class NativeLibrary {
  private static final String FOLDER = "/native/";
  private static final String FILE = "libtopicdb_jni.so";
  private static final String VERSION_FILE = "/io/topicdb/spark/version";

  private NativeLibrary() {}

  /** Returns the version of the JAR. */
  public static String jarVersion() {
    return textOf(VERSION_FILE);
  }

  /** Returns the name of the folder of the JAR that has the library for this platform. */
  static String platform(String system, String architecture) {
    String name = system.toLowerCase(Locale.ROOT);
    String machine = architecture.equals("amd64") ? "x86_64" : architecture;
    return (name.startsWith("mac") ? "darwin" : name.split(" ")[0]) + "-" + machine;
  }

  static void load() {
    load(platform(System.getProperty("os.name"), System.getProperty("os.arch")));
    String found = new String(Native.version(), StandardCharsets.UTF_8);
    if (!found.equals(jarVersion())) {
      throw new TopicDbException(
          "VersionError",
          "the JAR is of topicdb " + jarVersion() + ", its native library of " + found
              + ": build or install it again");
    }
  }

  /** Loads the library for a platform. Throws TopicDbException, which names the platform. */
  public static void load(String platform) {
    String source = FOLDER + platform + "/";
    if (NativeLibrary.class.getResource(source + FILE) == null) {
      throw new TopicDbException(
          "PlatformError",
          "the JAR of topicdb has no native library for " + platform + ", only for "
              + textOf(FOLDER + "platforms") + ": use format('topicdb-python'), which needs no JAR");
    }
    try {
      loadCopy(source);
    } catch (IOException error) {
      throw new TopicDbException(
          "StorageError",
          "cannot put the native library of topicdb into " + System.getProperty("java.io.tmpdir")
              + " (java.io.tmpdir): " + error,
          error);
    } catch (UnsatisfiedLinkError error) {
      throw new TopicDbException(
          "PlatformError",
          "cannot load the native library of topicdb for " + platform + ": " + error.getMessage()
              + "; use format('topicdb-python'), which needs no JAR",
          error);
    }
  }

  /** Loads the library from a folder with copies of all that it needs, and removes the folder. */
  private static void loadCopy(String source) throws IOException {
    Path folder = Files.createTempDirectory("topicdb-");
    List<Path> copies = new ArrayList<>();
    try {
      for (String name : textOf(source + "files").split("\n")) {
        Path copy = folder.resolve(name);
        copies.add(copy);
        try (InputStream file = NativeLibrary.class.getResourceAsStream(source + name)) {
          Files.copy(file, copy);
        }
      }
      System.load(folder.resolve(FILE).toString());
    } finally {
      for (Path copy : copies) {
        Files.deleteIfExists(copy);
      }
      Files.delete(folder);
    }
  }

  private static String textOf(String resource) {
    try (InputStream stream = NativeLibrary.class.getResourceAsStream(resource)) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8).strip();
    } catch (IOException error) {
      throw new TopicDbException("StorageError", "cannot read the JAR of topicdb: " + error, error);
    }
  }
}
