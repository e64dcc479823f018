// Tests that the memory of a replica is what its records say, whoever leads.
#include "replication/replicated_shard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/replicas.h"
#include "store/cursor/log_cursor.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

using namespace std::chrono_literals;

constexpr RetentionClassId kLast{1};  // the class "last/#"

// The log of one replica in one term in which it leads. Thread-safe.
class TermLog : public ReplicatedLog {
 public:
  enum class Fault { kNone, kRefused, kKeptWithoutAnswer, kLostWithoutAnswer };

  explicit TermLog(EntryFile* file) : file_(*file) {}

  Result<LogPlace> Propose(const Entry& entry) override {
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(over_);
    const Fault fault = left_ == 0 ? fault_ : Fault::kNone;
    if (left_ > 0) --left_;
    if (fault == Fault::kNone || fault == Fault::kKeptWithoutAnswer) {
      auto place = file_.Propose(entry);
      if (fault == Fault::kNone) return place;
    }
    over_ = NotLeader("the term is over");
    if (fault == Fault::kRefused) return over_;
    return UnknownOutcome("there was no answer");
  }
  void NoteApplied(const LogPlace&) override {}
  void NoteFailed(const Status&) override { End(); }
  Status MayWrite() const override {
    const MutexLock lock(mutex_);
    return over_;
  }
  void End() {
    const MutexLock lock(mutex_);
    over_ = NotLeader("the term is over");
  }
  // Has a proposal fail in this way, after `left` others.
  void FailAfter(int left, Fault fault) {
    const MutexLock lock(mutex_);
    left_ = left;
    fault_ = fault;
  }

 private:
  mutable Mutex mutex_;
  EntryFile& file_ TOPICDB_GUARDED_BY(mutex_);
  Status over_ TOPICDB_GUARDED_BY(mutex_);
  int left_ TOPICDB_GUARDED_BY(mutex_) = 0;
  Fault fault_ TOPICDB_GUARDED_BY(mutex_) = Fault::kNone;
};

// What a replica asks that knows of none that leads.
class NobodyLeads : public ShardLeader {
 public:
  std::chrono::milliseconds patience() const override { return 100ms; }
  void Commit(std::span<ShardCommit* const> group, Clock::time_point) override {
    for (ShardCommit* commit : group) commit->status = why_;
  }
  Status BeginTransaction(Clock::time_point) override { return why_; }
  Result<std::optional<KnownAppend>> FindAppend(std::string_view, Clock::time_point) override {
    return why_;
  }
  Status Rotate(const RotateOptions&, Clock::time_point) override { return why_; }
  Status DropSlab(RetentionClassId, Generation, Clock::time_point) override { return why_; }
  Status Stage(const StagingStep&, Clock::time_point) override { return why_; }
  Status SealAll(Clock::time_point) override { return why_; }

 private:
  const Status why_ = NotLeader("nobody leads");
};

// Calls visit(row) for each message that a view has, also deleted ones.
template <typename Visit>
void ForEachRow(const ShardView& view, const Slab& slab, Visit visit) {
  SlabSalvage call;
  call.structure_of = [&](StreamId stream) { return slab.StructureOf(stream); };
  call.report = [](const Finding& finding) { ADD_FAILURE() << finding.what; };
  call.take = [&](const SalvagedRow& row) {
    visit(row);
    return Status::Ok();
  };
  const Status status = slab.layout().Salvage(view.Source(slab), call);
  EXPECT_TRUE(status.ok()) << status.message();
}

// Commits messages, and what a transaction does besides. Returns the serial, or why it has failed.
Result<Serial> Commit(Shard* shard, const std::vector<MessageView>& messages,
                      TransactionOps* ops = nullptr) {
  ShardCommit commit;
  commit.messages = messages;
  commit.transaction = ops;
  shard->Commit(&commit);
  if (!commit.status.ok()) return commit.status;
  return commit.serial;
}

// Returns everything that readers of a shard see, as text.
std::string Describe(const Shard& shard) {
  const auto view = shard.view();
  std::ostringstream text;
  text << "serial " << view->serial().value() << " rules " << shard.rules_version() << "\n";
  for (const SlabView& slab_view : view->slabs()) {
    const Slab& slab = *slab_view.slab;
    const SlabInfo info = slab.Info({});
    text << "class " << slab.id().retention_class.value() << " generation "
         << slab.id().generation.value() << (slab_view.read_only ? " read-only" : " current")
         << " ended " << MicrosecondsOf(slab_view.sealed_at) << " begun " << slab.begun_at().value()
         << " keeps " << info.keep_last << ": " << info.messages << " of " << info.bytes
         << " bytes, times " << info.first_timestamp.value_or(-1) << " to "
         << info.last_timestamp.value_or(-1) << "\n";
    for (const char* filter : {"#", "$topicdb/#"}) {
      for (const auto& [structure, stream] : slab.Match(Filter::Parse(filter).value())) {
        text << "  " << stream.value() << " " << structure.Text() << "\n";
      }
    }
    std::uint64_t rows = 0;
    std::uint64_t digest = 0;
    ForEachRow(*view, slab, [&](const SalvagedRow& row) {
      ++rows;
      digest = Hash64(row.topic, digest + static_cast<std::uint64_t>(row.timestamp));
      digest = Hash64(row.value, digest + row.serial.value() + row.index);
    });
    text << "  " << rows << " rows " << digest << "\n";
  }
  for (const meta::DeleteRecord& record : view->deletes()) {
    text << "delete " << record.serial.value() << " " << record.index << " "
         << record.keys.filter.text() << "\n";
  }
  return text.str();
}

// A replica of the shard, with files of its own.
class TestReplica {
 public:
  TestReplica(const std::string& path, const OpenOptions& options, bool seals,
              std::shared_ptr<ShardLeader> leader)
      : path_(path), leader_(std::move(leader)) {
    environment_ = DatabaseParts::MakeEnvironment(path, options);
    if (!seals) environment_->sealer->Stop();
    Open();
  }
  ~TestReplica() { Close(); }
  TestReplica(const TestReplica&) = delete;
  TestReplica& operator=(const TestReplica&) = delete;

  Shard& shard() const { return *replicated_->shard(); }
  const ShardEnvironment& environment() const { return *environment_; }
  const std::string& path() const { return path_; }
  const std::shared_ptr<Shard>& shared_shard() const { return replicated_->shard(); }
  TermLog& term() const { return *term_; }
  bool leads() const { return term_ != nullptr; }

  // Applies what the log has, and this replica has not.
  void CatchUp(const EntryFile& log) {
    for (std::size_t i = replicated_->applied().index; i < log.entries().size(); ++i) {
      const EntryFile::Stored& entry = log.entries()[i];
      const Status status = replicated_->Apply(entry.place, entry.bytes);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
  // Begins to lead. Returns false if that fails because the term is over.
  bool Lead(EntryFile* log, int left = 0, TermLog::Fault fault = TermLog::Fault::kNone) {
    Entry begins;
    begins.kind = EntryKind::kLead;
    log->BeginTerm();
    EXPECT_TRUE(log->Propose(begins).ok());
    CatchUp(*log);
    term_ = std::make_shared<TermLog>(log);
    term_->FailAfter(left, fault);
    const Status led = replicated_->Lead(term_);
    EXPECT_TRUE(led.ok() || fault != TermLog::Fault::kNone) << led.message();
    return led.ok();
  }
  void Follow() {
    term_->End();
    const Status follows = replicated_->Follow();
    EXPECT_TRUE(follows.ok()) << follows.message();
    term_.reset();
  }
  void Close() {
    if (leads()) Follow();
    if (replicated_ == nullptr) return;
    const Status closed = replicated_->Close();
    EXPECT_TRUE(closed.ok()) << closed.message();
    replicated_.reset();
  }
  // Closes the shard, and loads it anew.
  void Reopen() {
    Close();
    Open();
  }

 private:
  void Open() { replicated_ = ReplicatedShard::Open(environment_, 0, leader_).value(); }

  const std::string path_;
  const std::shared_ptr<ShardLeader> leader_;
  std::shared_ptr<ShardEnvironment> environment_;
  std::unique_ptr<ReplicatedShard> replicated_;
  std::shared_ptr<TermLog> term_;  // while it leads
};

class ReplicatedShardTest : public testing::TestWithParam<LayoutKind> {
 protected:
  ReplicatedShardTest() {
    options_.schema.layout = GetParam();
    options_.schema.retention = {{"old/#", 1h * 24, 0, 1h * 24, 0}, {"last/#", 0us, 0, 1us, 2}};
    options_.seal_bytes = 4'000;
    DatabaseParts::MakeEnvironment(directory_ / "made", options_);
    std::filesystem::remove_all(directory_ / "made/shards/0000");
  }
  std::unique_ptr<TestReplica> NewReplica(bool seals = false,
                                          std::shared_ptr<ShardLeader> leader = nullptr) {
    // All replicas are of one database.
    const std::string path = directory_ / ("db" + std::to_string(replicas_++));
    std::filesystem::copy(directory_ / "made", path, std::filesystem::copy_options::recursive);
    return std::make_unique<TestReplica>(path, options_, seals, std::move(leader));
  }

  const TestDirectory directory_;
  OpenOptions options_;
  int replicas_ = 0;
};

// Does by chance what changes a shard. A step may fail if its term is over.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  int Below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  Status Step(TestReplica* leader) {
    Shard* const shard = &leader->shard();
    switch (Below(10)) {
      case 0:
        return Delete(shard);
      case 1:
        return shard->SealAll();
      case 2:
        now_ += 24h;
        return shard->Rotate(std::nullopt, now_);
      case 3:
        return DropOldest(shard);
      case 4:
        return MergeLast(shard);
      case 5:
        TOPICDB_RETURN_IF_ERROR(shard->EnsureReservedSlab());
        return Append(shard, "$topicdb/map/names");
      case 6:
        return ChangeRules(leader);
      default:
        return Append(shard, std::vector<std::string>{"old", "last", "kept"}[Below(3)]);
    }
  }

 private:
  Status Append(Shard* shard, const std::string& root) {
    std::vector<std::string> topics;
    const int first = Below(40);
    for (int i = 0; i < 30; ++i) {
      topics.push_back(root + "/" + std::to_string((first + i) % 41) + "/" + std::to_string(i % 3));
    }
    std::vector<MessageView> messages;
    for (int i = 0; i < 30; ++i) messages.push_back({topics[i], Below(1'000), "some value"});
    return Commit(shard, messages).status();
  }
  // The replicas agree on the rules past their log, and each hears of it at another time.
  Status ChangeRules(TestReplica* leader) {
    std::vector<RetentionClass> classes{{"last/#", 0us, 0, 1us, 2}};
    for (const char* filter : {"old/#", "kept/1/#", "kept/#", "last/7/0"}) {
      if (Below(2) == 0) continue;
      classes.insert(classes.begin() + Below(static_cast<int>(classes.size())),
                     {filter, std::chrono::hours(1 + Below(3))});
    }
    if (!agreed_.has_value()) agreed_ = *leader->environment().rules();
    auto changed = agreed_->With(classes);
    if (!changed.ok()) return Status::Ok();  // a class would take all of another
    agreed_ = std::move(*changed);
    leader->environment().retention->Set(*agreed_);
    return leader->shard().Adopt(leader->environment().rules());
  }
  Status Delete(Shard* shard) {
    TransactionOps ops;
    ops.deletes.push_back({Filter::Parse("+/" + std::to_string(Below(41)) + "/#").value(), {}});
    return Commit(shard, {}, &ops).status();
  }
  Status DropOldest(Shard* shard) {
    const auto view = shard->view();
    for (const SlabView& slab_view : view->slabs()) {
      if (!slab_view.read_only) continue;
      const SlabId id = slab_view.slab->id();
      return shard->DropSlab(id.retention_class, id.generation);
    }
    return Status::Ok();
  }
  Status MergeLast(Shard* shard) {
    KeepLastMerge merge;
    merge.keep_last = 2;
    {
      const auto view = shard->view();
      for (const SlabView& slab_view : view->slabs()) {
        const SlabId& id = slab_view.slab->id();
        if (slab_view.read_only && id.retention_class == kLast) merge.from.push_back(id);
      }
    }
    if (merge.from.size() < 2) return Status::Ok();
    merge.to = merge.from.back();
    merge.to.generation = merge.to.generation.Next();
    return shard->MergeLast(merge, nullptr).status();
  }

  std::mt19937_64 random_;
  std::optional<RetentionRules> agreed_;
  WallTime now_{4'000'000'000s};
};

TEST_P(ReplicatedShardTest, AFollowerSeesWhatTheLeaderHasDone) {
  EntryFile log;
  const auto leader = NewReplica();
  const auto follower = NewReplica();
  ASSERT_TRUE(leader->Lead(&log));
  Chance chance(7);
  for (int step = 0; step < 120; ++step) {
    const Status done = chance.Step(leader.get());
    ASSERT_TRUE(done.ok()) << done.message();
    follower->CatchUp(log);
    ASSERT_EQ(Describe(follower->shard()), Describe(leader->shard())) << "after step " << step;
  }
  const std::string seen = Describe(follower->shard());
  follower->Reopen();
  EXPECT_EQ(Describe(follower->shard()), seen) << "the records say something else";
  EXPECT_GT(leader->shard().view()->slabs().size(), 4U);
}

// Replicas lead in turns. Terms end at any write, with any outcome.
TEST_P(ReplicatedShardTest, MemoryIsRightWhoeverLeads) {
  for (const std::uint64_t seed : {1, 2}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EntryFile log;
    std::vector<std::unique_ptr<TestReplica>> replicas;
    for (int i = 0; i < 3; ++i) replicas.push_back(NewReplica());
    Chance chance(seed);
    int failed = 0;
    for (int term = 0; term < 25; ++term) {
      TestReplica& leader = *replicas[chance.Below(3)];
      const auto fault = static_cast<TermLog::Fault>(1 + chance.Below(3));
      bool leads = leader.Lead(&log, chance.Below(12), fault);
      for (int step = 0; leads && step < 8; ++step) {
        const Status done = chance.Step(&leader);
        if (done.ok()) continue;
        ASSERT_TRUE(done.code() == Code::kNotLeader || done.code() == Code::kUnknownOutcome)
            << done.message();
        leads = false;
      }
      failed += leads ? 0 : 1;
      leader.Follow();
      for (const auto& replica : replicas) replica->CatchUp(log);
      const std::string seen = Describe(replicas[0]->shard());
      for (int other = 1; other < 3; ++other) {
        ASSERT_EQ(Describe(replicas[other]->shard()), seen) << "term " << term << ", " << other;
      }
      if (chance.Below(4) > 0) continue;
      TestReplica& reopened = *replicas[chance.Below(3)];
      reopened.Reopen();
      ASSERT_EQ(Describe(reopened.shard()), seen) << "term " << term;
    }
    EXPECT_GT(failed, 5);
  }
}

// Rules of which a replica has not heard come to it with the first entry that needs them.
TEST_P(ReplicatedShardTest, TheRulesComeWithTheLog) {
  EntryFile log;
  const auto leader = NewReplica();
  const auto follower = NewReplica();
  ASSERT_TRUE(leader->Lead(&log));
  const auto rules = leader->environment().rules()->With({{"new/#", 1h}, {"last/#"}}).value();
  leader->environment().retention->Set(rules);
  ASSERT_TRUE(leader->shard().Adopt(leader->environment().rules()).ok());
  ASSERT_TRUE(Commit(&leader->shard(), {{"new/1", 1, "value"}}).ok());
  EXPECT_EQ(follower->environment().rules()->version(), 0U);
  follower->CatchUp(log);
  EXPECT_EQ(follower->environment().rules()->version(), 1U);
  EXPECT_EQ(follower->shard().rules_version(), 1U);
  EXPECT_EQ(Describe(follower->shard()), Describe(leader->shard()));
  const RetentionClassId added = rules.IndexOf("new/#").value();
  EXPECT_EQ(follower->shard().view()->slabs().back().slab->id().retention_class, added);
  leader->Follow();
  ASSERT_TRUE(follower->Lead(&log));
  ASSERT_TRUE(Commit(&follower->shard(), {{"new/2", 2, "value"}}).ok());
  EXPECT_EQ(follower->shard().view()->slabs().back().slab->Info({}).messages, 2U);
}

// The rules of the database may be newer than those of the shard: nobody led when they changed.
TEST_P(ReplicatedShardTest, WhoeverComesToLeadAdoptsTheRulesOfTheDatabase) {
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica();
  ASSERT_TRUE(first->Lead(&log));
  first->Follow();
  second->CatchUp(log);
  const auto rules = second->environment().rules()->With({{"new/#", 1h}, {"last/#"}}).value();
  second->environment().retention->Set(rules);
  EXPECT_EQ(second->shard().Adopt(second->environment().rules()).code(), Code::kNotLeader);
  EXPECT_EQ(second->shard().rules_version(), 0U) << "it only follows";
  second->Reopen();
  EXPECT_EQ(second->shard().rules_version(), 0U) << "the log has no other ones";
  ASSERT_TRUE(second->Lead(&log));
  EXPECT_EQ(second->shard().rules_version(), 1U);
  first->CatchUp(log);
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
  EXPECT_EQ(first->environment().rules()->version(), 1U);
}

// A snapshot is opened in a directory whose file has older rules.
TEST_P(ReplicatedShardTest, ACopyOfAShardBringsItsRules) {
  EntryFile log;
  const auto leader = NewReplica();
  ASSERT_TRUE(leader->Lead(&log));
  const auto rules = leader->environment().rules()->With({{"new/#", 1h}, {"last/#"}}).value();
  leader->environment().retention->Set(rules);
  ASSERT_TRUE(leader->shard().Adopt(leader->environment().rules()).ok());
  ASSERT_TRUE(Commit(&leader->shard(), {{"new/1", 1, "value"}}).ok());
  const std::string seen = Describe(leader->shard());
  leader->Close();
  const std::string path = directory_ / "copy";
  std::filesystem::copy(directory_ / "made", path, std::filesystem::copy_options::recursive);
  std::filesystem::copy(leader->path() + "/shards/0000", path + "/shards/0000");
  {
    OpenOptions options = options_;
    options.read_only = true;
    const auto environment = DatabaseParts::MakeEnvironment(path, options);
    EXPECT_EQ(environment->rules()->version(), 0U);
    const auto read = Shard::Open(environment, 0, /*create=*/false);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(environment->rules()->version(), 1U);
    EXPECT_EQ((*read)->rules_version(), 1U);
  }
  const TestReplica copy(path, options_, /*seals=*/false, /*leader=*/nullptr);
  EXPECT_EQ(copy.environment().rules()->version(), 1U);
  EXPECT_EQ(Describe(copy.shard()), seen);
}

// A large delete first hides its messages, and then removes them in steps.
TEST_P(ReplicatedShardTest, TheNextLeaderFinishesALargeDelete) {
  constexpr int kMessages = 25'000;
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica(/*seals=*/true);
  ASSERT_TRUE(first->Lead(&log, 4, TermLog::Fault::kRefused));  // the first step of the delete
  std::vector<MessageView> messages;
  for (int i = 0; i < kMessages; ++i) messages.push_back({"kept/1", i, "value"});
  messages.push_back({"kept/2", 1, "value"});
  const auto stored = Commit(&first->shard(), messages);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  TransactionOps ops;
  ops.deletes.push_back({Filter::Parse("kept/1").value(), {}});
  EXPECT_EQ(Commit(&first->shard(), {}, &ops).status().code(), Code::kNotLeader);
  first->Follow();
  second->CatchUp(log);
  ASSERT_EQ(second->shard().view()->deletes().size(), 1U) << "the delete is a record";
  ASSERT_TRUE(second->Lead(&log));
  while (!second->shard().view()->deletes().empty()) std::this_thread::yield();
  second->Follow();
  first->CatchUp(log);
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
  EXPECT_TRUE(first->shard().view()->deletes().empty());
}

// While a merge is under way, another replica leads and merges the same slabs.
TEST_P(ReplicatedShardTest, AMergeDoesNotGoOnInAnotherTerm) {
  constexpr int kMessages = 20'000;  // more than a merge reads between two looks at the interrupt
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica();
  ASSERT_TRUE(first->Lead(&log));
  std::vector<std::string> topics;
  for (int i = 0; i < kMessages; ++i) topics.push_back("last/" + std::to_string(i));
  std::vector<MessageView> messages;
  for (int i = 0; i < kMessages; ++i) messages.push_back({topics[i], 1, "value"});
  KeepLastMerge merge;
  merge.keep_last = 2;
  for (int generation = 0; generation < 2; ++generation) {
    const auto stored = Commit(&first->shard(), messages);
    ASSERT_TRUE(stored.ok()) << stored.status().message();
    merge.from.push_back(first->shard().view()->current()[1].slab->id());
    ASSERT_EQ(merge.from.back().retention_class, kLast);
    ASSERT_TRUE(first->shard().Rotate(kLast, std::nullopt).ok());
  }
  merge.to = merge.from.back();
  merge.to.generation = merge.to.generation.Next();
  int looks = 0;
  const auto merged = first->shard().MergeLast(merge, [&] {
    if (++looks > 1) return false;
    first->Follow();
    second->CatchUp(log);
    EXPECT_TRUE(second->Lead(&log));
    EXPECT_TRUE(second->shard().MergeLast(merge, nullptr).ok());
    second->Follow();
    EXPECT_TRUE(first->Lead(&log));
    return false;
  });
  EXPECT_GT(looks, 0);
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.status().code(), Code::kNotLeader) << merged.status().message();
  first->Follow();
  second->CatchUp(log);
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
  first->Reopen();
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
}

// Where there are many slabs, families are made ahead, and dropped several at a time.
TEST_P(ReplicatedShardTest, FamiliesThatWereMadeAheadAreKnownToWhoeverLeads) {
  constexpr int kGenerations = 150;
  constexpr RetentionClassId kKept{2};
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica();
  ASSERT_TRUE(first->Lead(&log));
  for (int i = 0; i < kGenerations; ++i) {
    ASSERT_TRUE(first->shard().Rotate(kKept, std::nullopt).ok());
  }
  // It is hidden, and its families are there until others go, too.
  ASSERT_TRUE(first->shard().DropSlab(kKept, Generation{1}).ok());
  first->Follow();
  second->CatchUp(log);
  ASSERT_TRUE(second->Lead(&log));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(second->shard().Rotate(kKept, std::nullopt).ok());
    first->CatchUp(log);
  }
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
  second->Follow();
  ASSERT_TRUE(first->Lead(&log));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(first->shard().Rotate(kKept, std::nullopt).ok());
  ASSERT_TRUE(first->shard().DropSlab(kKept, Generation{2}).ok());
  EXPECT_TRUE(first->shard().FinishDrops().ok());
  first->Follow();
  second->CatchUp(log);
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
}

// A view is a moment, also while other entries are applied.
TEST_P(ReplicatedShardTest, AViewOfAFollowerDoesNotChange) {
  EntryFile log;
  const auto leader = NewReplica();
  const auto follower = NewReplica();
  ASSERT_TRUE(leader->Lead(&log));
  Chance chance(11);
  for (int step = 0; step < 20; ++step) ASSERT_TRUE(chance.Step(leader.get()).ok());
  follower->CatchUp(log);
  const auto rows = [](const ShardView& view) {
    std::multiset<std::string> found;
    for (const SlabView& slab_view : view.slabs()) {
      ForEachRow(view, *slab_view.slab, [&](const SalvagedRow& row) {
        found.insert(std::string(row.topic) + " " + std::to_string(row.serial.value()));
      });
    }
    return found;
  };
  {
    const auto view = follower->shard().view();
    const auto before = rows(*view);
    EXPECT_GT(before.size(), 100U);
    for (int step = 0; step < 60; ++step) ASSERT_TRUE(chance.Step(leader.get()).ok());
    follower->CatchUp(log);
    EXPECT_EQ(rows(*view), before);
    EXPECT_NE(rows(*follower->shard().view()), before);
  }
}

TEST_P(ReplicatedShardTest, AFollowerRefusesEveryWrite) {
  EntryFile log;
  const auto leader = NewReplica();
  const auto follower = NewReplica();
  ASSERT_TRUE(leader->Lead(&log));
  Chance chance(3);
  for (int step = 0; step < 20; ++step) ASSERT_TRUE(chance.Step(leader.get()).ok());
  follower->CatchUp(log);
  const std::string before = Describe(follower->shard());
  Shard& shard = follower->shard();
  const Status refused = Commit(&shard, {{"kept/1", 1, "value"}}).status();
  EXPECT_EQ(refused.code(), Code::kNotLeader);
  EXPECT_NE(refused.message().find("write there"), std::string::npos);
  EXPECT_EQ(shard.Rotate(std::nullopt, std::nullopt).code(), Code::kNotLeader);
  EXPECT_EQ(shard.EnsureReservedSlab().code(), Code::kNotLeader);
  if (GetParam() == LayoutKind::kColumnar) {
    EXPECT_EQ(shard.SealAll().code(), Code::kNotLeader);
  }
  EXPECT_EQ(shard.FinishDrops().code(), Code::kOk) << "it has none";
  EXPECT_EQ(Describe(shard), before);
}

// An append whose answer was lost may be stored, even if nobody leads when it is sent again.
TEST_P(ReplicatedShardTest, AnAppendStaysDoubtfulWhileNobodyLeads) {
  EntryFile log;
  const auto replica = NewReplica(/*seals=*/false, std::make_shared<NobodyLeads>());
  const auto outcome = [&](TermLog::Fault fault, const std::string& name) {
    EXPECT_TRUE(replica->Lead(&log));
    replica->term().FailAfter(0, fault);
    const AppendId id{name, {}, 1};
    const std::vector<MessageView> messages{{"kept/1", 1, name}};
    ShardCommit commit;
    commit.messages = messages;
    commit.id = &id;
    replica->shard().Commit(&commit);
    replica->Follow();
    return commit.status.code();
  };
  EXPECT_EQ(outcome(TermLog::Fault::kKeptWithoutAnswer, "kept"), Code::kUnknownOutcome);
  EXPECT_EQ(outcome(TermLog::Fault::kLostWithoutAnswer, "lost"), Code::kUnknownOutcome);
  EXPECT_EQ(outcome(TermLog::Fault::kRefused, "refused"), Code::kNotLeader);
  ASSERT_TRUE(replica->Lead(&log));
  EXPECT_TRUE(replica->shard().FindAppendHere("kept").has_value());
  EXPECT_FALSE(replica->shard().FindAppendHere("lost").has_value());
  EXPECT_FALSE(replica->shard().FindAppendHere("refused").has_value());
}

// Serials are used without a gap when another replica leads.
TEST_P(ReplicatedShardTest, TheNextLeaderContinuesTheSerials) {
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica();
  const auto append = [](TestReplica* leader) {
    const auto stored = Commit(&leader->shard(), {{"kept/1", 1, "value"}});
    EXPECT_TRUE(stored.ok()) << stored.status().message();
    return stored.ok() ? *stored : kNoSerial;
  };
  ASSERT_TRUE(first->Lead(&log));
  const Serial serial = append(first.get());
  first->Follow();
  ASSERT_TRUE(second->Lead(&log));
  EXPECT_EQ(append(second.get()), serial.Next());
  second->Follow();
  ASSERT_TRUE(first->Lead(&log));
  EXPECT_EQ(append(first.get()), serial.Next(2));
}

// A transaction that began at another leader, or in an earlier term, cannot know what changed
// since.
TEST_P(ReplicatedShardTest, ATransactionOfAnEarlierTermIsRefused) {
  EntryFile log;
  const auto first = NewReplica();
  const auto second = NewReplica();
  ASSERT_TRUE(first->Lead(&log));
  const auto view = first->shard().BeginTransaction();
  TransactionOps ops;
  ops.start_serial = view->serial();
  ops.begun = std::chrono::steady_clock::now();
  ops.reads.push_back({Filter::Parse("kept/1").value(), {}});
  first->Follow();
  ASSERT_TRUE(second->Lead(&log));
  const std::vector<MessageView> messages{{"kept/1", 1, "value"}};
  const auto stored = Commit(&second->shard(), messages);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  second->Follow();
  ASSERT_TRUE(first->Lead(&log));
  const Status conflicting = Commit(&first->shard(), messages, &ops).status();
  EXPECT_EQ(conflicting.code(), Code::kConflict) << conflicting.message();
  first->shard().EndTransaction();
}

// Whoever reads commit by commit at one replica gets each message once, whoever leads meanwhile.
TEST_P(ReplicatedShardTest, AReaderOfTheLogGetsEachMessageOnce) {
  if (GetParam() != LayoutKind::kColumnar) GTEST_SKIP() << "a state has no order of commits";
  EntryFile log;
  std::vector<std::unique_ptr<TestReplica>> replicas;
  std::deque<LogCursor> cursors;
  std::vector<std::vector<std::string>> read(3);
  for (int i = 0; i < 3; ++i) {
    replicas.push_back(NewReplica());
    cursors.emplace_back(LogQuery{.filters = {Filter::Everything()}, .from = {}});
  }
  const auto read_on = [&](int i) {
    for (std::size_t rows = 1; rows > 0;) {
      Batch batch;
      std::vector<std::uint32_t> indexes;
      const Status status = cursors[i].ReadMessages(replicas[i]->shared_shard(), {7, 1 << 20},
                                                    nullptr, &batch, &indexes);
      ASSERT_TRUE(status.ok()) << status.message();
      rows = batch.size();
      for (std::size_t row = 0; row < rows; ++row) read[i].emplace_back(batch.value(row));
    }
  };
  Chance chance(5);
  std::vector<std::string> stored;
  int next = 0;
  for (int term = 0; term < 20; ++term) {
    TestReplica& leader = *replicas[term % 3];
    ASSERT_TRUE(leader.Lead(&log));
    for (int step = 0; step < 10; ++step) {
      if (chance.Below(5) == 0) {
        EXPECT_TRUE(leader.shard().SealAll().ok());
      } else if (chance.Below(10) == 0) {
        EXPECT_TRUE(leader.shard().Rotate(std::nullopt, std::nullopt).ok());
      }
      const std::string values[] = {std::to_string(next++), std::to_string(next++)};
      const auto committed =
          Commit(&leader.shard(), {{"kept/1", 1, values[0]}, {"old/2", 2, values[1]}});
      ASSERT_TRUE(committed.ok()) << committed.status().message();
      stored.insert(stored.end(), std::begin(values), std::end(values));
      for (int i = 0; i < 3; ++i) {
        if (chance.Below(3) > 0) continue;
        if (!replicas[i]->leads()) replicas[i]->CatchUp(log);
        read_on(i);
      }
    }
    leader.Follow();
    for (const auto& replica : replicas) replica->CatchUp(log);
  }
  for (int i = 0; i < 3; ++i) {
    read_on(i);
    cursors[i].Release();
    EXPECT_EQ(read[i], stored) << "replica " << i;
  }
}

// Threads write to both replicas all the time, and are refused by the one that follows. Others
// read. Runs under ThreadSanitizer, too.
TEST_P(ReplicatedShardTest, WhoeverWritesWhileTheLeaderChangesLosesNothing) {
  EntryFile log;
  const auto first = NewReplica(/*seals=*/true);
  const auto second = NewReplica(/*seals=*/true);
  std::atomic<bool> ends{false};
  std::atomic<int> next{0};
  Mutex mutex;
  std::set<std::string> stored;
  std::set<std::string> refused;
  std::vector<std::thread> threads;
  for (TestReplica* replica : {first.get(), second.get()}) {
    threads.emplace_back([&, replica] {
      while (!ends) {
        const std::string value = std::to_string(next++);
        const std::string topic = "kept/" + value;
        const Status status = Commit(&replica->shard(), {{topic, 1, value}}).status();
        const MutexLock lock(mutex);
        if (status.ok()) stored.insert(value);
        if (status.code() == Code::kNotLeader) refused.insert(value);
      }
    });
    threads.emplace_back([&, replica] {
      Serial before;
      while (!ends) {
        const auto view = replica->shard().view();
        EXPECT_GE(view->serial(), before);
        before = view->serial();
        for (const SlabView& slab_view : view->slabs()) {
          ForEachRow(*view, *slab_view.slab,
                     [&](const SalvagedRow& row) { EXPECT_LE(row.serial, before); });
        }
      }
    });
  }
  const auto count_stored = [&] {
    const MutexLock lock(mutex);
    return stored.size();
  };
  for (int term = 0; term < 12; ++term) {
    TestReplica& leader = term % 2 == 0 ? *first : *second;
    TestReplica& other = term % 2 == 0 ? *second : *first;
    const std::size_t before = count_stored();
    ASSERT_TRUE(leader.Lead(&log));
    while (count_stored() < before + 20) std::this_thread::yield();
    leader.Follow();
    leader.CatchUp(log);
    other.CatchUp(log);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Describe(first->shard()), Describe(second->shard()));
  std::multiset<std::string> found;
  const auto view = first->shard().view();
  for (const SlabView& slab_view : view->slabs()) {
    ForEachRow(*view, *slab_view.slab,
               [&](const SalvagedRow& row) { found.insert(std::string(row.value)); });
  }
  for (const std::string& value : stored) EXPECT_EQ(found.count(value), 1U) << value;
  for (const std::string& value : refused) EXPECT_EQ(found.count(value), 0U) << value;
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplicatedShardTest,
                         testing::Values(LayoutKind::kColumnar, LayoutKind::kSkipstream),
                         [](const auto& of) {
                           return of.param == LayoutKind::kColumnar ? "Columnar" : "Skipstream";
                         });

}  // namespace
}  // namespace topicdb::replication
