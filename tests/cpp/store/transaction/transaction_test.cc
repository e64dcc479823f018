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

// Writes and reads in all ways at once. No increment may be lost. This is for ThreadSanitizer above
// all.
class Clients {
 public:
  explicit Clients(Database& database) : database_(database) {}

  void Increment() {
    for (int done = 0; done < 100;) {
      const auto transaction = BeginOk(database_);
      const auto before = transaction->Get("counter", 0).value();
      const int next = (before.has_value() ? std::stoi(*before) : 0) + 1;
      ASSERT_TRUE(transaction->Write({"counter", 0, std::to_string(next)}).ok());
      const auto receipt = transaction->Commit();
      if (receipt.ok()) {
        ++done;
      } else {
        ASSERT_EQ(receipt.status().code(), Code::kConflict) << receipt.status().message();
      }
    }
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
