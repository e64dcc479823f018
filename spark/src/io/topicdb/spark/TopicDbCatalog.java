package io.topicdb.spark;

import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.core.Urls;
import io.topicdb.spark.functions.Functions;
import io.topicdb.spark.vectors.Columns;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of SQL whose tables are databases: {@code SELECT … FROM topicdb.fleet}. It also has
 * functions about topics. The setting
 * {@code spark.sql.catalog.topicdb} names this class, and the settings below it have options for
 * every table. {@code root} is the folder of the databases, that of the driver if it is absent; the
 * others are those of the format. One with the name of a table in front, such as
 * {@code fleet.remote}, is an option of that table.
 *
 * <p>A table is one of those, or a path: absolute, or below the root, with or without {@code .db} at
 * its end, or the URL of an upload. Spark makes one catalog for each session. Any thread may call it.
 */
public final class TopicDbCatalog implements TableCatalog, FunctionCatalog {
  private static final String ROOT = "root";
  private static final String SUFFIX = ".db";
  private static final String PATH = "path";
  private static final String REMOTE = "remote";

  /** The file that makes a folder a database. */
  private static final String MARK = "TOPICDB";

  private String name;
  private Path root;
  private Map<String, String> options;
  private final Map<String, Map<String, String>> own = new TreeMap<>(); // of the tables with options

  @Override
  public void initialize(String catalog, CaseInsensitiveStringMap settings) {
    name = catalog;
    options = new HashMap<>();
    settings.asCaseSensitiveMap().forEach(this::take);
    options.keySet().removeIf(ROOT::equalsIgnoreCase);
    root = Path.of(settings.getOrDefault(ROOT, "")).toAbsolutePath().normalize();
  }

  private void take(String setting, String value) {
    int dot = setting.lastIndexOf('.');
    if (dot < 0) {
      options.put(setting, value);
    } else {
      own.computeIfAbsent(setting.substring(0, dot), table -> new HashMap<>())
          .put(setting.substring(dot + 1), value);
    }
  }

  @Override
  public String name() {
    return name;
  }

  /** Returns the databases that are in the root, and those with options of their own. */
  @Override
  public Identifier[] listTables(String[] namespace) {
    if (namespace.length != 0) {
      return new Identifier[0];
    }
    try (Stream<Path> found = Files.list(root)) {
      Stream<String> files =
          found
              .filter(TopicDbCatalog::isDatabase)
              .map(path -> path.getFileName().toString())
              .map(file -> file.endsWith(SUFFIX) ? file.substring(0, file.length() - 3) : file);
      return Stream.concat(files, own.keySet().stream())
          .sorted()
          .distinct()
          .map(file -> Identifier.of(namespace, file))
          .toArray(Identifier[]::new);
    } catch (IOException error) {
      throw new TopicDbException(
          "StorageError", "spark.sql.catalog." + name + ".root: cannot list " + root + ": " + error);
    }
  }

  /**
   * Returns the database. Throws TopicDbException if there is none: after Spark's own exception,
   * Spark would take the name for that of a file, and complain of something else.
   */
  @Override
  public Table loadTable(Identifier table) {
    Versions.check();
    Map<String, String> mine = optionsOf(table);
    if (mine == null) {
      throw new TopicDbException(
          "NotFoundError",
          "there is no database for the table " + name + "." + table + ": neither "
              + root.resolve(table.name()) + " nor " + root.resolve(table.name() + SUFFIX)
              + " is one, and there is no setting spark.sql.catalog." + name + "." + table.name()
              + ".remote");
    }
    return new TopicDbTable(Columns.of(mine), Columns.of(mine), mine);
  }

  @Override
  public boolean tableExists(Identifier table) {
    return optionsOf(table) != null;
  }

  /** Returns the options of a table, or null if there is no database for it. */
  private Map<String, String> optionsOf(Identifier table) {
    if (table.namespace().length != 0) {
      return null;
    }
    Map<String, String> mine = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    mine.putAll(options);
    mine.putAll(own.getOrDefault(table.name(), Map.of()));
    if (mine.containsKey(REMOTE) || mine.containsKey(PATH)) {
      return mine;
    }
    String path = Urls.isUrl(table.name()) ? table.name() : pathOf(table);
    if (path == null) {
      return null;
    }
    mine.put(PATH, path);
    return mine;
  }

  /** Returns the functions about topics. */
  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return namespace.length != 0
        ? new Identifier[0]
        : Functions.names().stream()
            .map(function -> Identifier.of(namespace, function))
            .toArray(Identifier[]::new);
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    UnboundFunction found =
        function.namespace().length == 0 ? Functions.named(function.name()) : null;
    if (found == null) {
      throw new NoSuchFunctionException(function);
    }
    return found;
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw refusal("alter", table);
  }

  @Override
  public boolean dropTable(Identifier table) {
    throw refusal("drop", table);
  }

  @Override
  public void renameTable(Identifier table, Identifier wanted) {
    throw refusal("rename", table);
  }

  /** Returns the folder of a table, or null if it is no database. */
  private String pathOf(Identifier table) {
    for (String file : List.of(table.name(), table.name() + SUFFIX)) {
      if (isDatabase(root.resolve(file))) {
        return root.resolve(file).toString();
      }
    }
    return null;
  }

  private static boolean isDatabase(Path path) {
    return Files.exists(path.resolve(MARK));
  }

  private UnsupportedOperationException refusal(String what, Identifier table) {
    return new UnsupportedOperationException(
        "cannot " + what + " " + name + "." + table.name()
            + ": a table of this catalog is a database, which topicdb.open makes and which goes with"
            + " its folder");
  }
}
