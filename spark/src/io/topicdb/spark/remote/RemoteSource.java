package io.topicdb.spark.remote;

import io.topicdb.spark.core.Groups;
import io.topicdb.spark.core.LogSource;
import io.topicdb.spark.core.MessageScan;
import io.topicdb.spark.core.Slice;
import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.select.Servers;
import io.topicdb.spark.types.AtLeast;
import io.topicdb.spark.types.CommitSpan;
import io.topicdb.spark.types.Extent;
import io.topicdb.spark.types.Grouping;
import io.topicdb.spark.types.Limits;
import io.topicdb.spark.types.Slab;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A database at a server. */
public final class RemoteSource implements LogSource {
  private static final String BEHIND = "StorageError"; // of a server that lacks what was planned
  private static final Set<String> LACKING = Set.of("StaleError", "NoQuorumError");
  private static final Set<String> IS_BEHIND = Set.of(BEHIND, "StaleError", "NoQuorumError");
  private static final long PAUSE_MILLIS = 50;

  private final Connection connection;

  /** What the check of a task has found, until the read has taken it; null otherwise. */
  private Extent checked;

  /** What its reads must see, and how long each of them waits for it. */
  private AtLeast needs = AtLeast.NOTHING;

  private long waitMillis;

  private RemoteSource(Connection connection) {
    this.connection = connection;
  }

  /**
   * Opens the database on the driver, at the first server that answers and sees what the read must
   * see. Each may take its part of the time. A server that reads what another process writes shows
   * what is there now.
   *
   * @param filters of the read, if it must see something; null stands for every topic
   * @throws TopicDbException UnavailableError, which names all servers, if none answers; StaleError
   *     or NoQuorumError if none sees it
   */
  public static RemoteSource openToPlan(Servers servers, AtLeast needs, List<String> filters) {
    List<String> addresses = servers.addresses();
    return first(
        servers,
        addresses,
        source -> {
          source.refresh();
          source.waitMillis = AtLeast.WAIT_MILLIS / addresses.size();
          source.see(needs, filters);
        });
  }

  /**
   * Opens the database for a task. It takes a server that has what is wanted: one of this host, or
   * else any, so that the tasks use all of them. If all that answer are behind, as sites of a cluster
   * may be for a moment, it waits.
   *
   * @param filters of the read; null stands for every topic
   * @throws TopicDbException as {@link #openToPlan} does; ValueError if a server has another
   *     database; StorageError if the shard does not reach so far anywhere in time
   */
  public static RemoteSource openToRead(
      Servers servers, String database, List<String> filters, int shard, long until) {
    long giveUpAt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(AtLeast.WAIT_MILLIS);
    while (true) {
      List<String> addresses = Replicas.nearestFirst(servers.addresses());
      try {
        return first(servers, addresses, source -> source.check(database, filters, shard, until));
      } catch (TopicDbException error) {
        if (!error.name().equals(BEHIND) || System.nanoTime() >= giveUpAt) {
          throw error;
        }
      }
      pause();
    }
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new TopicDbException("InterruptedError", "the task was ended while it waited", error);
    }
  }

  private static RemoteSource first(
      Servers servers, List<String> addresses, Consumer<RemoteSource> check) {
    TopicDbException behind = null;
    List<String> reasons = new ArrayList<>();
    for (String address : addresses) {
      RemoteSource source = null;
      try {
        source = new RemoteSource(new Connection(address, servers));
        check.accept(source);
        return source;
      } catch (TopicDbException error) {
        if (source != null) {
          source.close();
        }
        if (error.name().equals(TopicDbException.UNAVAILABLE)) {
          reasons.add(error.text());
        } else if (IS_BEHIND.contains(error.name())) {
          behind = error; // like one that does not answer
        } else {
          throw error;
        }
      }
    }
    if (behind != null) {
      throw behind;
    }
    throw new TopicDbException(
        TopicDbException.UNAVAILABLE,
        "no server of " + servers + " answers: " + String.join("; ", reasons));
  }

  private void check(String database, List<String> filters, int shard, long until) {
    checked = asked(filters);
    if (!checked.database().equals(database)) {
      throw new TopicDbException(
          "ValueError",
          "option remote: " + connection.address() + " has another database than the query was"
              + " planned with: all servers of the list must offer the same one");
    }
    if (includes(checked, shard, until)) {
      return;
    }
    refresh(); // a replica that reads what another process writes
    checked = asked(filters);
    if (!includes(checked, shard, until)) {
      throw new TopicDbException(
          BEHIND,
          "shard " + shard + " of " + connection.address() + " ends before commit " + until
              + ", which the query has planned to read: was the database replaced, or restored"
              + " from a copy?");
    }
  }

  private static boolean includes(Extent extent, int shard, long until) {
    Long last = extent.serials().get(shard);
    return last != null && last >= until;
  }

  private Extent asked(List<String> filters) {
    List<?> fields = (List<?>) connection.call("extent", filters);
    return connection.told(
        () ->
            new Extent(
                (String) fields.get(0),
                serialsOf(fields.get(1)),
                Set.copyOf(slabsOf(fields.get(2))),
                slabsOf(fields.get(3))));
  }

  /** Returns serials by shard. */
  static SortedMap<Integer, Long> serialsOf(Object plain) {
    SortedMap<Integer, Long> serials = new TreeMap<>();
    ((Map<?, ?>) plain)
        .forEach((shard, last) -> serials.put(Math.toIntExact((Long) shard), (Long) last));
    return serials;
  }

  private static List<Slab> slabsOf(Object plain) {
    return ((List<?>) plain).stream().map(one -> Wire.slabOf((List<?>) one)).toList();
  }

  /** Returns how far it reaches. A task that has just been checked does not ask again. */
  @Override
  public synchronized Extent extent(List<String> filters) {
    Extent found = checked == null ? asked(filters) : checked;
    checked = null;
    return found;
  }

  @Override
  public Set<Slab> slabs(List<String> filters) {
    return extent(filters).slabs();
  }

  @Override
  public List<Slice> slices(
      List<String> filters,
      Long start,
      Long end,
      Map<Integer, Long> after,
      Map<Integer, Long> until,
      long bytesMax) {
    Object found = seeing("slices", filters, start, end, after, until, bytesMax);
    return connection.told(
        () -> ((List<?>) found).stream().map(one -> Wire.sliceOf((List<?>) one)).toList());
  }

  /** Returns the result of a call whose read must see what those of this source do. */
  private Object seeing(String method, Object... arguments) {
    if (needs.isNothing()) {
      return connection.call(method, arguments);
    }
    long giveUpAt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMillis);
    List<Object> wanted = Arrays.asList(needs.serials(), TimeUnit.MILLISECONDS.toMicros(waitMillis));
    List<Object> all = new ArrayList<>(Arrays.asList(arguments));
    all.add(0, new Wire.Tuple(wanted));
    while (true) {
      try {
        return connection.call("at_least." + method, all.toArray());
      } catch (TopicDbException error) {
        if (!LACKING.contains(error.name()) || System.nanoTime() >= giveUpAt) {
          throw error;
        }
      }
      pause();
    }
  }

  /** Waits. Each read of it that is planned then is such a call, too: the server may begin anew. */
  @Override
  public void see(AtLeast wanted, List<String> filters) {
    needs = wanted;
    if (!wanted.isNothing()) {
      slices(filters, 0L, 0L, Map.of(), Map.of(), 1L << 20); // of no time: there are none
    }
  }

  @Override
  public MessageScan scan(List<String> filters, List<Slice> slices, int wanted) {
    return connection.sendsParcels()
        ? new RemoteParcels(connection, filters, slices, wanted)
        : new RemoteScan(connection, filters, slices, wanted);
  }

  @Override
  public void refresh() {
    connection.call("refresh");
  }

  @Override
  public MessageScan tail(
      List<String> filters, Map<Integer, Long> after, Map<Integer, Long> until, int wanted) {
    boolean withSerials = (wanted & MessageScan.SERIALS) != 0;
    RemoteTail tail = new RemoteTail(connection, filters, after, until, withSerials);
    return new RemoteScan(connection, tail, wanted | MessageScan.VALUES);
  }

  @Override
  public CommitSpan measure(
      int shard,
      List<String> filters,
      long after,
      Long until,
      Long start,
      Limits limits,
      boolean isOfBlocks) {
    Object found =
        connection.call(
            "measure_log",
            shard,
            filters,
            after,
            until,
            start,
            limits.messages(),
            limits.bytes(),
            isOfBlocks);
    return connection.told(
        () -> {
          List<?> fields = (List<?>) found;
          return new CommitSpan((Long) fields.get(0), (Long) fields.get(1), (Long) fields.get(2));
        });
  }

  @Override
  public Groups summarize(
      List<String> filters, List<Slice> slices, Grouping grouping, long groupsMax, long rowsMax) {
    throw new TopicDbException("NotImplementedError", "servers do not count slices");
  }

  @Override
  public void close() {
    connection.close();
  }
}
