package io.topicdb.spark.remote;

import io.topicdb.spark.select.Servers;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Says in which order a task tries the servers of a database. Has no state. */
final class Replicas {
  private Replicas() {}

  /** Returns all addresses: those of this host first, otherwise in random order. */
  static List<String> nearestFirst(List<String> addresses) {
    List<String> ordered = new ArrayList<>(addresses);
    if (ordered.size() > 1) {
      Collections.shuffle(ordered);
      List<String> here = ordered.stream().filter(Replicas::isHere).toList();
      ordered.removeAll(here);
      ordered.addAll(0, here);
    }
    return ordered;
  }

  private static boolean isHere(String address) {
    try {
      InetAddress host = InetAddress.getByName(Servers.hostOf(address));
      return NetworkInterface.getByInetAddress(host) != null;
    } catch (UnknownHostException | SocketException error) {
      return false;
    }
  }
}
