package io.topicdb.spark;

import io.topicdb.spark.core.NativeLibrary;
import io.topicdb.spark.core.TopicDbException;
import org.apache.spark.sql.internal.SQLConf;

/** Checks that the connector, Spark and the Python package belong together. */
public final class Versions {
  /** The setting in which {@code topicdb.spark.register} leaves the version of the package. */
  private static final String PACKAGE = "spark.topicdb.version";

  private static final int MAJOR_MIN = 3;
  private static final int MINOR_MIN = 5;

  private Versions() {}

  /** Throws TopicDbException if Spark is too old, or the Python package another version. */
  static void check() {
    checkSpark(org.apache.spark.package$.MODULE$.SPARK_VERSION());
    checkPackage(SQLConf.get().getConfString(PACKAGE, NativeLibrary.jarVersion()));
  }

  /** Throws TopicDbException if this version of Spark is too old. */
  public static void checkSpark(String version) {
    String[] parts = version.split("[^0-9]+");
    int major = Integer.parseInt(parts[0]);
    int minor = Integer.parseInt(parts[1]);
    if (major < MAJOR_MIN || (major == MAJOR_MIN && minor < MINOR_MIN)) {
      throw new TopicDbException(
          "VersionError",
          "format('" + TopicDbProvider.NAME + "') needs Spark " + MAJOR_MIN + "." + MINOR_MIN
              + " or newer, this is " + version);
    }
  }

  /** Throws TopicDbException if the Python package has another version than the JAR. */
  public static void checkPackage(String version) {
    if (!version.equals(NativeLibrary.jarVersion())) {
      throw new TopicDbException(
          "VersionError",
          "the JAR is of topicdb " + NativeLibrary.jarVersion() + ", the Python package that called"
              + " topicdb.spark.register of " + version + ": use the JAR of that package, which"
              + " topicdb.spark.jar() names, and no other in spark.jars");
    }
  }
}
