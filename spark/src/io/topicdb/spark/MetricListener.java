package io.topicdb.spark;

import java.util.Arrays;
import java.util.Set;

/**
 * The threads of Spark that put metrics together for its UI when a query has ended. They make the
 * object of a metric by the name of its class, with the class loader with which Spark began. That
 * does not know a JAR that a running session has added. Has no state.
 */
final class MetricListener {
  // The second is begun by the first, and then has the same class loader.
  private static final Set<String> NAMES =
      Set.of("spark-listener-group-appStatus", "element-tracking-store-worker");

  private MetricListener() {}

  /**
   * Makes sure that the threads find a class. Gives them the class loader of this class if need be:
   * that looks in the former one as well.
   */
  static void teach(Class<?> metric) {
    ThreadGroup all = Thread.currentThread().getThreadGroup();
    while (all.getParent() != null) {
      all = all.getParent();
    }
    Thread[] threads = new Thread[2 * all.activeCount() + 16];
    int count = all.enumerate(threads);
    Arrays.stream(threads, 0, count)
        .filter(thread -> NAMES.contains(thread.getName()))
        .filter(thread -> !finds(thread.getContextClassLoader(), metric))
        .forEach(thread -> thread.setContextClassLoader(metric.getClassLoader()));
  }

  private static boolean finds(ClassLoader loader, Class<?> wanted) {
    try {
      Class.forName(wanted.getName(), false, loader);
      return true;
    } catch (ClassNotFoundException error) {
      return false;
    }
  }
}
