#include "topicdb/transaction.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

std::unique_ptr<Database> OpenOk(const std::string& path, const OpenOptions& options = {}) {
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

std::unique_ptr<Transaction> BeginOk(Database& database) {
  auto transaction = database.Begin({});
  EXPECT_TRUE(transaction.ok()) << transaction.status().message();
  return std::move(transaction).value();
}

std::size_t Count(const Database& database, const std::string& filter) {
  auto scan = database.NewScan(Filter::Parse(filter).value(), {});
  EXPECT_TRUE(scan.ok());
  std::size_t count = 0;
  while (true) {
    auto batch = scan.value()->Next({1000, 1 << 20});
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return count;
    count += (*batch)->size();
  }
}

TEST(Transaction, AppliesEverythingOrNothing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto transaction = BeginOk(*database);
  ASSERT_TRUE(transaction->Write({"a", 1, "x"}).ok());
  ASSERT_TRUE(transaction->WriteSerial("b", 1).ok());
  EXPECT_EQ(transaction->Get("a", 1).value(), "x");
  EXPECT_EQ(transaction->Get("b", 1).value(), std::nullopt);
  EXPECT_EQ(Count(*database, "#"), 0U);
  const auto receipt = transaction->Commit();
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(receipt->serials.front().second, Serial{1});
  EXPECT_EQ(BeginOk(*database)->Get("b", 1).value(), std::string("\0\0\0\0\0\0\0\x01", 8));
  EXPECT_FALSE(transaction->open());
  EXPECT_EQ(transaction->Commit().status().code(), Code::kClosed);
}

TEST(Transaction, AConflictSaysWhatItIsAbout) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto transaction = BeginOk(*database);
  ASSERT_TRUE(transaction->Get("a", 1).ok());
  ASSERT_TRUE(transaction->Write({"b", 1, ""}).ok());
  ASSERT_TRUE(database->Append(std::vector<MessageView>{{"a", 1, "x"}}, std::nullopt).ok());
  EXPECT_EQ(transaction->Commit().status().code(), Code::kConflict);
  ASSERT_EQ(transaction->fault().conflicts.size(), 1U);
  EXPECT_EQ(transaction->fault().conflicts[0].filter, "a");
  EXPECT_EQ(transaction->fault().conflicts[0].serial, Serial{1});
  EXPECT_EQ(Count(*database, "b"), 0U);
}

// A write replaces what is in generations of state, if it goes to one of these itself.
TEST(Transaction, ReadsItsOwnWritesAsItsCommitWillLeaveThem) {
  for (const LayoutKind last : {LayoutKind::kSkipstream, LayoutKind::kColumnar}) {
    const TestDirectory directory;
    const auto database = OpenOk(directory / "db");
    const std::vector<MessageView> messages{{"a", 1, "stored"}};
    ASSERT_TRUE(database->Append(messages).ok());
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
    ASSERT_TRUE(database->Append(messages).ok());
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, last).ok());
    const auto transaction = BeginOk(*database);
    ASSERT_TRUE(transaction->Write({"a", 1, "own"}).ok());
    EXPECT_EQ(transaction->Get("a", 1).value(), "own");
    std::size_t seen = 0;
    auto scan = transaction->NewScan(Filter::Parse("#").value(), {}).value();
    for (auto batch = scan->Next({10, 1 << 20}).value(); batch != nullptr;
         batch = scan->Next({10, 1 << 20}).value()) {
      seen += batch->size();
    }
    scan.reset();
    EXPECT_EQ(seen, last == LayoutKind::kSkipstream ? 2U : 3U);
    ASSERT_TRUE(transaction->Commit().ok());
    EXPECT_EQ(Count(*database, "#"), seen);
    EXPECT_EQ(BeginOk(*database)->Get("a", 1).value(), "own");
  }
}

TEST(Transaction, FailsIfALayoutHasChangedMeanwhile) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto transaction = BeginOk(*database);
  ASSERT_TRUE(transaction->Write({"a", 1, "own"}).ok());
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
  const Status status = transaction->Commit().status();
  EXPECT_EQ(status.code(), Code::kConflict);
  EXPECT_NE(status.message().find("began with another layout"), std::string::npos)
      << status.message();
  EXPECT_EQ(Count(*database, "#"), 0U);
}

TEST(Transaction, ReservedTopicsAreForTheirOwnUse) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto transaction = BeginOk(*database);
  EXPECT_EQ(transaction->Write({"$topicdb/owner/m", 0, ""}).code(), Code::kTopic);
  EXPECT_TRUE(transaction->Write({"$topicdb/owner/m", 0, ""}, TopicUse::kReserved).ok());
  const Filter reserved = Filter::Parse("$topicdb/#").value();
  EXPECT_EQ(transaction->Delete(reserved, {}).code(), Code::kTopic);
  EXPECT_TRUE(transaction->Commit().ok());
  EXPECT_EQ(Count(*database, "$topicdb/owner/+"), 1U);
}

TEST(Transaction, ClosingTheDatabaseEndsIt) {
  const TestDirectory directory;
  auto database = OpenOk(directory / "db");
  const auto transaction = BeginOk(*database);
  ASSERT_TRUE(transaction->Write({"a", 1, "x"}).ok());
  ASSERT_TRUE(database->Close().ok());
  EXPECT_FALSE(transaction->open());
  EXPECT_EQ(transaction->Commit().status().code(), Code::kClosed);
  transaction->Rollback();
}

// Begins to commit, and returns the outcome when it is there.
std::future<CommitOutcome> CommitAsyncOk(Transaction& transaction, bool urgent = false) {
  auto outcome = std::make_shared<std::promise<CommitOutcome>>();
  const auto begun = transaction.CommitAsync(
      [outcome](CommitOutcome found) { outcome->set_value(std::move(found)); }, urgent);
  EXPECT_TRUE(begun.ok()) << begun.status().message();
  EXPECT_TRUE(*begun);
  return outcome->get_future();
}

OpenOptions Gathering() {
  OpenOptions options;
  options.commit.flush_interval = options.commit.idle_flush_interval = std::chrono::hours(1);
  return options;
}

TEST(Transaction, CommitsWithoutWaitingInTheOrderOfTheCalls) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  std::vector<std::future<CommitOutcome>> outcomes;
  for (int i = 0; i < 20; ++i) {
    const auto transaction = BeginOk(*database);
    const std::string value = std::to_string(i);
    ASSERT_TRUE(transaction->Write({"a", 1, value}).ok());
    outcomes.push_back(CommitAsyncOk(*transaction));
    EXPECT_FALSE(transaction->open());
    EXPECT_EQ(transaction->Commit().status().code(), Code::kClosed);
  }
  Serial last;
  for (auto& outcome : outcomes) {
    const CommitOutcome found = outcome.get();
    ASSERT_TRUE(found.receipt.ok()) << found.receipt.status().message();
    EXPECT_EQ(found.receipt->count, 1U);
    EXPECT_GT(found.receipt->serials.at(0).second, last);
    last = found.receipt->serials.at(0).second;
  }
  EXPECT_EQ(BeginOk(*database)->Get("a", 1).value(), "19");
}

TEST(Transaction, TheOutcomeOfACommitSaysWhyItWasRefused) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db", Gathering());
  const auto late = BeginOk(*database);
  ASSERT_TRUE(late->Get("a", 1).ok());
  ASSERT_TRUE(late->Write({"b", 1, ""}).ok());
  auto outcome = CommitAsyncOk(*late);
  // A transaction that waits counts as open, so the shard remembers what came before it.
  ASSERT_TRUE(database->Append(std::vector<MessageView>{{"c", 1, "x"}}, std::nullopt).ok());
  EXPECT_TRUE(outcome.get().receipt.ok()) << "it came before";

  const auto conflicting = BeginOk(*database);
  ASSERT_TRUE(conflicting->Get("a", 1).ok());
  ASSERT_TRUE(conflicting->Write({"b", 2, ""}).ok());
  ASSERT_TRUE(database->Append(std::vector<MessageView>{{"a", 1, "x"}}, std::nullopt).ok());
  const CommitOutcome conflict = CommitAsyncOk(*conflicting, /*urgent=*/true).get();
  EXPECT_EQ(conflict.receipt.status().code(), Code::kConflict);
  ASSERT_EQ(conflict.fault.conflicts.size(), 1U);
  EXPECT_EQ(conflict.fault.conflicts[0].filter, "a");

  const auto requiring = BeginOk(*database);
  ASSERT_TRUE(requiring->RequireAbsent("a", 1).ok());
  ASSERT_TRUE(requiring->Write({"b", 3, ""}).ok());
  const CommitOutcome unmet = CommitAsyncOk(*requiring, /*urgent=*/true).get();
  EXPECT_EQ(unmet.receipt.status().code(), Code::kPrecondition);
  EXPECT_EQ(unmet.fault.preconditions.size(), 1U);
  EXPECT_EQ(Count(*database, "b"), 1U);
}

TEST(Transaction, WhatWaitsCanBeWithdrawnAndIsNeverStored) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db", Gathering());
  const auto waiting = BeginOk(*database);
  ASSERT_TRUE(waiting->Write({"a", 1, "x"}).ok());
  auto outcome = CommitAsyncOk(*waiting);
  EXPECT_EQ(waiting->GiveUp(), CommitKnown::kNotStored);
  ASSERT_TRUE(database->Append(std::vector<MessageView>{{"b", 1, "x"}}, std::nullopt).ok());
  EXPECT_EQ(outcome.get().receipt.status().code(), Code::kClosed);
  EXPECT_EQ(Count(*database, "a"), 0U);

  const auto open = BeginOk(*database);
  ASSERT_TRUE(open->Write({"a", 1, "x"}).ok());
  EXPECT_EQ(open->GiveUp(), CommitKnown::kNotStored) << "it was never begun";
  EXPECT_FALSE(open->open());

  const auto stored = BeginOk(*database);
  ASSERT_TRUE(stored->Write({"a", 2, "x"}).ok());
  EXPECT_TRUE(CommitAsyncOk(*stored, /*urgent=*/true).get().receipt.ok());
  EXPECT_EQ(stored->GiveUp(), CommitKnown::kStored);
  EXPECT_EQ(Count(*database, "a"), 1U);
}

TEST(Transaction, ClosingTheDatabaseFinishesWhatIsBeingCommitted) {
  const TestDirectory directory;
  std::vector<std::future<CommitOutcome>> outcomes;
  {
    const auto database = OpenOk(directory / "db", Gathering());
    for (int i = 0; i < 10; ++i) {
      const auto transaction = BeginOk(*database);
      ASSERT_TRUE(transaction->Get("none", 1).ok());
      ASSERT_TRUE(transaction->Write({"a", i, "x"}).ok());
      outcomes.push_back(CommitAsyncOk(*transaction));
    }
    ASSERT_TRUE(database->Close().ok());
  }
  for (auto& outcome : outcomes) {
    const CommitOutcome found = outcome.get();
    EXPECT_TRUE(found.receipt.ok()) << found.receipt.status().message();
  }
  EXPECT_EQ(Count(*OpenOk(directory / "db"), "a"), 10U);
}

TEST(Transaction, ALargeDeleteOfOneThatNobodyWaitsForIsCarriedOut) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  std::vector<MessageView> messages;
  for (std::int64_t i = 0; i < 25'000; ++i) messages.push_back({"m", i, "x"});
  ASSERT_TRUE(database->Append(messages, std::nullopt).ok());
  const auto transaction = BeginOk(*database);
  ASSERT_TRUE(transaction->Delete(Filter::Parse("m").value(), {}).ok());
  ASSERT_TRUE(transaction->Write({"m", 7, "new"}).ok());
  EXPECT_TRUE(CommitAsyncOk(*transaction).get().receipt.ok());
  EXPECT_EQ(Count(*database, "m"), 1U);
  ASSERT_TRUE(database->Flush().ok());
  EXPECT_EQ(Count(*database, "m"), 1U);
}

// Writes and reads in all ways at once. No increment may be lost. This is for ThreadSanitizer above
// all.
class Clients {
 public:
  explicit Clients(Database& database) : database_(database) {}

  void Increment() {
    for (int done = 0, attempts = 0; done < 100; ++attempts) {
      const auto transaction = BeginOk(database_);
      const auto before = transaction->Get("counter", 0).value();
      const int next = (before.has_value() ? std::stoi(*before) : 0) + 1;
      ASSERT_TRUE(transaction->Write({"counter", 0, std::to_string(next)}).ok());
      const Result<Receipt> receipt = Commit(*transaction, attempts % 3);
      if (receipt.ok()) {
        ++done;
      } else {
        ASSERT_EQ(receipt.status().code(), Code::kConflict) << receipt.status().message();
      }
    }
  }

  // Commits in one of three ways. A commit that is given up counts as lost if it is withdrawn.
  static Result<Receipt> Commit(Transaction& transaction, int way) {
    if (way == 0) return transaction.Commit();
    auto outcome = CommitAsyncOk(transaction, /*urgent=*/way == 1);
    if (way == 2 && transaction.GiveUp() == CommitKnown::kNotStored) {
      EXPECT_EQ(outcome.get().receipt.status().code(), Code::kClosed);
      return Conflict("it was withdrawn");
    }
    return outcome.get().receipt;
  }

  void AppendAsync() {
    for (int i = 0; i < 100; ++i) {
      const std::vector<MessageView> messages{{"async", i, "x"}};
      auto done = std::make_shared<std::promise<Result<Receipt>>>();
      const auto durability = i % 10 == 0 ? Durability::kDisk : Durability::kOs;
      ASSERT_TRUE(
          database_
              .AppendAsync(messages, nullptr, durability,
                           [done](Result<Receipt> receipt) { done->set_value(std::move(receipt)); })
              .ok());
      ASSERT_TRUE(done->get_future().get().ok());
    }
  }

  void Delete() {
    const Filter filter = Filter::Parse("deleted/#").value();
    for (int i = 0; i < 30; ++i) {
      const std::vector<MessageView> messages{{"deleted/1", i, "x"}, {"deleted/2", i, "x"}};
      ASSERT_TRUE(database_.Append(messages, Durability::kDisk).ok());
      const auto receipt = database_.Delete(filter, {}, std::nullopt);
      ASSERT_TRUE(receipt.ok());
      ASSERT_EQ(receipt->count, 2U);
    }
  }

  void Read() {
    for (int i = 0; i < 50; ++i) {
      const auto transaction = BeginOk(database_);
      auto scan = transaction->NewScan(Filter::Parse("#").value(), {});
      ASSERT_TRUE(scan.ok());
      ASSERT_TRUE(scan.value()->Next({10, 1 << 20}).ok());
    }
  }

 private:
  Database& database_;
};

TEST(Transaction, ClientsOfAllKindsLoseNothing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  Clients clients(*database);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { clients.Increment(); });
  threads.emplace_back([&] { clients.Increment(); });
  threads.emplace_back([&] { clients.AppendAsync(); });
  threads.emplace_back([&] { clients.Delete(); });
  threads.emplace_back([&] { clients.Read(); });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(BeginOk(*database)->Get("counter", 0).value(), "200");
  EXPECT_EQ(Count(*database, "async"), 100U);
  EXPECT_EQ(Count(*database, "deleted/#"), 0U);
}

TEST(Transaction, ALargeDeleteIsSeenWhollyOrNotAtAll) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  constexpr std::size_t kRows = 25'000;
  std::vector<std::string> topics;
  for (int i = 0; i < 20; ++i) topics.push_back("m/" + std::to_string(i));
  std::vector<MessageView> messages;
  for (std::size_t i = 0; i < kRows; ++i) {
    messages.push_back({topics[i % topics.size()], static_cast<std::int64_t>(i), "x"});
  }
  ASSERT_TRUE(database->Append(messages, std::nullopt).ok());
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const std::size_t count = Count(*database, "m/#");
      EXPECT_TRUE(count == kRows || count == 0) << count;
    }
  });
  const auto receipt = database->Delete(Filter::Parse("m/#").value(), {}, std::nullopt);
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(receipt->count, kRows);
  stop = true;
  reader.join();
  EXPECT_EQ(Count(*database, "m/#"), 0U);
}

}  // namespace
}  // namespace topicdb
