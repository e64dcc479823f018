package io.topicdb.spark;

import io.topicdb.spark.core.TopicDbException;
import io.topicdb.spark.functions.Functions;
import io.topicdb.spark.vectors.Columns;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
 * others are those of the format.
 *
 * <p>A table is a path: absolute, or below the root, with or without {@code .db} at its end. Spark
 * makes one catalog for each session. Any thread may call it.
 */
public final class TopicDbCatalog implements TableCatalog, FunctionCatalog {
  private static final String ROOT = "root";
  private static final String SUFFIX = ".db";

  /** The file that makes a folder a database. */
  private static final String MARK = "TOPICDB";

  private String name;
  private Path root;
  private Map<String, String> options;

  @Override
  public void initialize(String catalog, CaseInsensitiveStringMap settings) {
    name = catalog;
    options = new HashMap<>(settings.asCaseSensitiveMap());
    options.keySet().removeIf(ROOT::equalsIgnoreCase);
    root = Path.of(settings.getOrDefault(ROOT, "")).toAbsolutePath().normalize();
  }

  @Override
  public String name() {
    return name;
  }

  /** Returns the databases that are in the root. */
  @Override
  public Identifier[] listTables(String[] namespace) {
    if (namespace.length != 0) {
      return new Identifier[0];
    }
    try (Stream<Path> found = Files.list(root)) {
      return found
          .filter(TopicDbCatalog::isDatabase)
          .map(path -> path.getFileName().toString())
          .map(file -> file.endsWith(SUFFIX) ? file.substring(0, file.length() - 3) : file)
          .sorted()
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
    Path path = pathOf(table);
    if (path == null) {
      throw new TopicDbException(
          "NotFoundError",
          "there is no database for the table " + name + "." + table + ": neither "
              + root.resolve(table.name()) + " nor " + root.resolve(table.name() + SUFFIX)
              + " is one");
    }
    Map<String, String> mine = new HashMap<>(options);
    mine.put("path", path.toString());
    return new TopicDbTable(Columns.of(mine), Columns.of(mine), mine);
  }

  @Override
  public boolean tableExists(Identifier table) {
    return pathOf(table) != null;
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
  private Path pathOf(Identifier table) {
    for (String file : List.of(table.name(), table.name() + SUFFIX)) {
      if (table.namespace().length == 0 && isDatabase(root.resolve(file))) {
        return root.resolve(file);
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
