#include "commit_peers.h"

#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <sqlite3.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "commit_measure.h"
#include "topicdb/database.h"
#include "topicdb/transaction.h"

namespace topicdb::bench {

namespace {

std::string KeyOf(std::size_t counter) { return "counter/" + std::to_string(counter); }

std::uint64_t Decode(std::string_view bytes) {
  std::uint64_t number = 0;
  if (bytes.size() != sizeof number)
    Fail("a counter has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string Encode(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

void Expect(const Status& status) {
  if (!status.ok()) Fail("TopicDB: " + status.message());
}

class TopicDbSession : public CounterSession {
 public:
  TopicDbSession(Database* database, Durability durability) : database_(database) {
    options_.durability = durability;
  }

  bool TryIncrement(std::size_t counter) override {
    const std::string topic = KeyOf(counter);
    auto transaction = database_->Begin(options_);
    Expect(transaction.status());
    const auto found = (*transaction)->Get(topic, 0);
    Expect(found.status());
    const std::uint64_t before = found->has_value() ? Decode(**found) : 0;
    Expect((*transaction)->Write({topic, 0, Encode(before + 1)}));
    const auto receipt = (*transaction)->Commit();
    if (!receipt.ok() && receipt.status().code() == Code::kConflict) return false;
    Expect(receipt.status());
    return true;
  }

 private:
  Database* const database_;
  TransactionOptions options_;
};

class TopicDbCounters : public CounterStore {
 public:
  TopicDbCounters(const std::string& directory, bool fsync)
      : durability_(fsync ? Durability::kDisk : Durability::kOs) {
    auto database = Database::Open(directory + "/topicdb", OpenOptions{});
    Expect(database.status());
    database_ = std::move(*database);
  }

  std::unique_ptr<CounterSession> NewSession() override {
    return std::make_unique<TopicDbSession>(database_.get(), durability_);
  }

  std::uint64_t Read(std::size_t counter) override {
    auto transaction = database_->Begin({});
    Expect(transaction.status());
    const auto found = (*transaction)->Get(KeyOf(counter), 0);
    Expect(found.status());
    return found->has_value() ? Decode(**found) : 0;
  }

 private:
  const Durability durability_;
  std::unique_ptr<Database> database_;
};

constexpr int kBusyTimeoutMs = 10'000;

struct CloseSqlite {
  void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// A connection and its prepared statements. BEGIN IMMEDIATE takes SQLite's only write lock at once.
// A transaction that reads first could not begin to write after another one has committed.
class SqliteSession : public CounterSession {
 public:
  SqliteSession(const std::string& path, bool fsync) {
    sqlite3* connection = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    const int opened = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
    connection_.reset(connection);
    Expect(opened);
    Expect(sqlite3_busy_timeout(connection, kBusyTimeoutMs));
    Execute("PRAGMA journal_mode=WAL");
    Execute(fsync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    Execute("CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID");
    begin_ = Prepare("BEGIN IMMEDIATE");
    select_ = Prepare("SELECT value FROM counters WHERE key = ?");
    replace_ = Prepare("INSERT OR REPLACE INTO counters VALUES (?, ?)");
    commit_ = Prepare("COMMIT");
  }

  bool TryIncrement(std::size_t counter) override {
    const int begun = sqlite3_step(begin_.get());
    sqlite3_reset(begin_.get());
    if (begun == SQLITE_BUSY) return false;
    if (begun != SQLITE_DONE) Expect(begun);
    const std::string bytes = Encode(Read(counter) + 1);
    BindKey(replace_.get(), counter);
    Expect(sqlite3_bind_blob(replace_.get(), 2, bytes.data(), static_cast<int>(bytes.size()),
                             nullptr));
    Run(replace_.get());
    Run(commit_.get());
    return true;
  }

  std::uint64_t Read(std::size_t counter) {
    BindKey(select_.get(), counter);
    const int found = sqlite3_step(select_.get());
    if (found != SQLITE_ROW && found != SQLITE_DONE) Expect(found);
    std::uint64_t number = 0;
    if (found == SQLITE_ROW) {
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(select_.get(), 0));
      number = Decode({static_cast<const char*>(sqlite3_column_blob(select_.get(), 0)), size});
    }
    sqlite3_reset(select_.get());
    return number;
  }

 private:
  using Statement = std::unique_ptr<sqlite3_stmt, CloseSqlite>;

  void Expect(int code) {
    if (code != SQLITE_OK) Fail(std::string("SQLite: ") + sqlite3_errmsg(connection_.get()));
  }

  void Execute(const char* sql) {
    Expect(sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr));
  }

  Statement Prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    Expect(sqlite3_prepare_v3(connection_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                              nullptr));
    return Statement(statement);
  }

  void BindKey(sqlite3_stmt* statement, std::size_t counter) {
    key_ = KeyOf(counter);
    Expect(sqlite3_bind_text(statement, 1, key_.data(), static_cast<int>(key_.size()), nullptr));
  }

  void Run(sqlite3_stmt* statement) {
    const int done = sqlite3_step(statement);
    sqlite3_reset(statement);
    if (done != SQLITE_DONE) Expect(done);
  }

  std::unique_ptr<sqlite3, CloseSqlite> connection_;
  Statement begin_, select_, replace_, commit_;
  std::string key_;  // must stay while it is bound
};

class SqliteCounters : public CounterStore {
 public:
  SqliteCounters(const std::string& directory, bool fsync)
      : path_(directory + "/sqlite.db"), fsync_(fsync), reader_(path_, fsync) {}

  std::unique_ptr<CounterSession> NewSession() override {
    return std::make_unique<SqliteSession>(path_, fsync_);
  }
  std::uint64_t Read(std::size_t counter) override { return reader_.Read(counter); }

 private:
  const std::string path_;
  const bool fsync_;
  SqliteSession reader_;
};

void Expect(const rocksdb::Status& status) {
  if (!status.ok()) Fail("RocksDB: " + status.ToString());
}

class RocksDbSession : public CounterSession {
 public:
  RocksDbSession(rocksdb::OptimisticTransactionDB* database, bool fsync) : database_(database) {
    options_.sync = fsync;
  }

  bool TryIncrement(std::size_t counter) override {
    const std::string key = KeyOf(counter);
    // Reuses the object of the last transaction, which is cheaper, as RocksDB's header says.
    transaction_.reset(database_->BeginTransaction(options_, {}, transaction_.release()));
    const rocksdb::Status found = transaction_->GetForUpdate({}, key, &value_);
    if (!found.IsNotFound()) Expect(found);
    Expect(transaction_->Put(key, Encode(found.ok() ? Decode(value_) + 1 : 1)));
    const rocksdb::Status committed = transaction_->Commit();
    if (committed.IsBusy() || committed.IsTryAgain()) {
      Expect(transaction_->Rollback());
      return false;
    }
    Expect(committed);
    return true;
  }

 private:
  rocksdb::OptimisticTransactionDB* const database_;
  rocksdb::WriteOptions options_;
  std::unique_ptr<rocksdb::Transaction> transaction_;
  std::string value_;
};

class RocksDbCounters : public CounterStore {
 public:
  RocksDbCounters(const std::string& directory, bool fsync) : fsync_(fsync) {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::OptimisticTransactionDB* database = nullptr;
    Expect(rocksdb::OptimisticTransactionDB::Open(options, directory + "/rocksdb", &database));
    database_.reset(database);
  }

  std::unique_ptr<CounterSession> NewSession() override {
    return std::make_unique<RocksDbSession>(database_.get(), fsync_);
  }

  std::uint64_t Read(std::size_t counter) override {
    std::string value;
    const rocksdb::Status found = database_->Get({}, KeyOf(counter), &value);
    if (found.IsNotFound()) return 0;
    Expect(found);
    return Decode(value);
  }

 private:
  const bool fsync_;
  std::unique_ptr<rocksdb::OptimisticTransactionDB> database_;
};

}  // namespace

std::string NameOf(Side side) {
  switch (side) {
    case Side::kTopicDb:
      return "TopicDB";
    case Side::kSqlite:
      return "SQLite";
    case Side::kRocksDb:
      return "RocksDB";
  }
  Fail("no such side");
}

std::string SqliteVersion() { return sqlite3_libversion(); }

std::unique_ptr<CounterStore> OpenCounters(Side side, const std::string& directory, bool fsync) {
  switch (side) {
    case Side::kTopicDb:
      return std::make_unique<TopicDbCounters>(directory, fsync);
    case Side::kSqlite:
      return std::make_unique<SqliteCounters>(directory, fsync);
    case Side::kRocksDb:
      return std::make_unique<RocksDbCounters>(directory, fsync);
  }
  Fail("no such side");
}

}  // namespace topicdb::bench
