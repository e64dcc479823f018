#include "subscribe/hub.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "subscribe/log_parts.h"
#include "subscribe/subscribing.h"

namespace topicdb {
namespace {

// A hub of a database of one shard and two classes, without the handles that users have.
class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    OpenOptions options;
    options.schema.retention = std::vector{RetentionClass{"a/#", {}, 0, {}, 0}};
    options.maintenance_interval = std::chrono::microseconds(0);
    database_ = DatabaseImpl::Open(directory_ / "db", options).value();
    const ReaderLock in_use(database_->lifecycle());
    hub_ = std::make_shared<SubscriptionHub>(database_);
    shard_ = database_->shards().Find(0).value();
  }
  ~HubTest() override {
    shard_.reset();
    hub_.reset();
    EXPECT_TRUE(database_->Close().ok());
  }

  void Commit(const std::vector<MessageView>& messages) {
    ShardCommit commit;
    commit.messages = messages;
    shard_->Commit(&commit);
    ASSERT_TRUE(commit.status.ok()) << commit.status.message();
  }
  // Makes blocks of one class unreadable from the next commit on.
  void Damage(std::uint32_t retention_class) {
    const auto view = shard_->view();
    const Slab& slab = *view->slabs().at(retention_class).slab;
    const std::string key = columnar::RecordKey(columnar::RecordKind::kFreshEntry, BlockId{99});
    ASSERT_TRUE(view->db()->Put({}, slab.families().main, key, "damaged").ok());
  }
  // A subscriber that takes up to 1,000 messages, and its number in the hub.
  struct Client {
    std::shared_ptr<Subscriber> subscriber;
    std::uint64_t number;
  };
  Client Add(const std::string& filter, const CommitPlace& from = {}) {
    auto subscriber = std::make_shared<Subscriber>(SubscribeWindow{1'000, 1 << 20},
                                                   SubscribeFrom::Places{{0, from}});
    const std::uint64_t number =
        hub_->Add(subscriber, *InterestIn(0, {filter}), {{0, {from, kNoSerial}}});
    return {subscriber, number};
  }
  SubscriptionInfo InfoOf(const Client& client) const {
    SubscriptionInfo info;
    hub_->Complete(client.number, &info);
    return info;
  }
  void WaitUntilLive(const Client& client) const {
    while (InfoOf(client).state != SubscriptionState::kLive) std::this_thread::yield();
  }
  // Returns the values of the next `count` messages, or the error that comes before them.
  static Result<std::vector<std::string>> Next(const Client& client, std::size_t count) {
    std::vector<std::string> values;
    while (values.size() < count) {
      TOPICDB_ASSIGN_OR_RETURN(const auto delivery,
                               client.subscriber->Next(kPatience, nullptr, count));
      if (!delivery.has_value()) break;
      for (std::size_t row = 0; row < delivery->batch->size(); ++row) {
        values.emplace_back(delivery->batch->value(row));
      }
    }
    return values;
  }

  const TestDirectory directory_;
  std::shared_ptr<DatabaseImpl> database_;
  std::shared_ptr<Shard> shard_;
  std::shared_ptr<SubscriptionHub> hub_;
};

using Values = std::vector<std::string>;

TEST_F(HubTest, BringsWhatIsStoredAndThenWhatIsCommitted) {
  Commit({{"a/1", 1, "1"}, {"b", 1, "2"}});
  const Client client = Add("+");
  EXPECT_EQ(Next(client, 1).value(), Values{"2"});
  WaitUntilLive(client);
  EXPECT_EQ(InfoOf(client).places.at(0), At(2));
  Commit({{"a/1", 2, "3"}, {"b", 2, "4"}});
  EXPECT_EQ(Next(client, 1).value(), Values{"4"});
}

TEST_F(HubTest, KnowsItsClientsByNumberUntilTheyAreRemoved) {
  const Client first = Add("a/#");
  const Client second = Add("a/#");
  EXPECT_NE(first.number, second.number);
  EXPECT_EQ(hub_->Stats().subscriptions, 2U);
  hub_->Remove(first.number);
  hub_->Remove(first.number);
  hub_->Reopen(first.number);  // it is not known any more
  EXPECT_EQ(hub_->Stats().subscriptions, 1U);
  SubscriptionInfo info;
  info.delivered = 7;
  hub_->Complete(first.number, &info);
  EXPECT_EQ(info.delivered, 7U) << "it is left as it is";
  WaitUntilLive(second);
  Commit({{"a/1", 1, "1"}});
  EXPECT_EQ(Next(second, 1).value(), Values{"1"});
  EXPECT_EQ(first.subscriber->Info().waiting, 0U);
}

TEST_F(HubTest, APlaceMovesPastWhatASubscriberDoesNotWant) {
  const Client client = Add("b");
  WaitUntilLive(client);
  for (int i = 0; i < 5; ++i) Commit({{"a/1", i, "x"}});
  Commit({{"b", 1, "1"}});
  ASSERT_EQ(Next(client, 1).value(), Values{"1"});
  EXPECT_EQ(client.subscriber->Info().places.at(0), At(7));
  Commit({{"a/1", 9, "x"}});
  while (InfoOf(client).places.at(0) < At(8)) std::this_thread::yield();
  EXPECT_EQ(client.subscriber->Info().places.at(0), At(7)) << "it was told of no more itself";
}

TEST_F(HubTest, FindsMessagesByTheirPlaces) {
  Commit({{"a/1", 1, "1"}, {"b", 1, "2"}, {"a/2", 1, "3"}});
  Commit({{"a/1", 2, "4"}});
  Commit({{"b", 3, "5"}, {"a/2", 3, "6"}});
  const std::vector<Filter> filters{Filter::Parse("a/+").value()};
  const auto found =
      hub_->Find(0, filters, {At(1, 0), At(1, 1), At(1, 2), At(3, 1), At(9)}, nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->rows, (std::vector<std::uint32_t>{0, 2, 1})) << "one is of another topic";
  EXPECT_EQ(found->batch->value(1), "3");
  EXPECT_EQ(found->batch->serial(2), Serial{3});
  EXPECT_TRUE(hub_->Find(0, filters, {}, nullptr)->rows.empty());
  EXPECT_FALSE(hub_->Find(7, filters, {At(1)}, nullptr).ok());
}

TEST_F(HubTest, FailsOnlyThoseThatWantWhatIsDamaged) {
  Commit({{"a/1", 1, "1"}, {"b", 1, "2"}});
  Damage(0);
  Commit({{"a/1", 2, "3"}, {"b", 2, "4"}});
  const Client before = Add("b");
  const Client damaged = Add("a/1");
  const Client after = Add("b");
  EXPECT_EQ(Next(damaged, 1).status().code(), Code::kCorruption);
  EXPECT_EQ(Next(before, 2).value(), (Values{"2", "4"}));
  EXPECT_EQ(Next(after, 2).value(), (Values{"2", "4"}));
  EXPECT_EQ(InfoOf(damaged).state, SubscriptionState::kFailed);
}

TEST_F(HubTest, OfLiveOnesFailsOnlyThoseThatWantWhatIsDamaged) {
  const Client other = Add("b");
  const Client damaged = Add("a/1");
  WaitUntilLive(other);
  WaitUntilLive(damaged);
  Damage(0);
  Commit({{"a/1", 1, "1"}, {"b", 1, "2"}});
  EXPECT_EQ(Next(other, 1).value(), Values{"2"});
  EXPECT_EQ(Next(damaged, 1).status().code(), Code::kCorruption);
  Commit({{"b", 2, "3"}});
  EXPECT_EQ(Next(other, 1).value(), Values{"3"});
}

// Begins a generation of the class a/# that keeps no log.
void RotateToState(const std::shared_ptr<Shard>& shard) {
  ASSERT_TRUE(
      shard->Rotate(RetentionClassId{0}, std::nullopt, false, LayoutKind::kSkipstream).ok());
}

TEST_F(HubTest, FailsOnlyThoseThatComeToAGenerationWithoutALog) {
  Commit({{"a/1", 1, "1"}, {"b", 1, "2"}});
  RotateToState(shard_);
  Commit({{"a/1", 2, "3"}, {"b", 2, "4"}});
  const Client before = Add("b");
  const Client missing = Add("a/1");
  const Client after = Add("b");
  const Client both = Add("#");
  EXPECT_EQ(Next(missing, 1).value(), Values{"1"});
  EXPECT_EQ(Next(missing, 1).status().code(), Code::kSchema);
  EXPECT_EQ(Next(both, 2).value(), (Values{"1", "2"}));
  EXPECT_EQ(Next(both, 1).status().code(), Code::kSchema);
  EXPECT_EQ(Next(before, 2).value(), (Values{"2", "4"}));
  EXPECT_EQ(Next(after, 2).value(), (Values{"2", "4"}));
  EXPECT_EQ(InfoOf(missing).state, SubscriptionState::kFailed);
  // Pages that were read for others are not for those that would miss something in them.
  const Client later = Add("a/1", At(3));
  EXPECT_EQ(Next(later, 1).status().code(), Code::kSchema);
}

// If there are many filters, one read is for all topics.
TEST_F(HubTest, OfManyLiveOnesFailsOnlyThoseThatWantWhatIsInNoLog) {
  std::vector<Client> others;
  for (const char* filter : {"b", "c", "d", "e", "f"}) others.push_back(Add(filter));
  const Client missing = Add("a/1");
  for (const Client& other : others) WaitUntilLive(other);
  WaitUntilLive(missing);
  RotateToState(shard_);
  Commit({{"a/2", 1, "0"}, {"b", 1, "1"}});
  EXPECT_EQ(Next(others[0], 1).value(), Values{"1"});
  Commit({{"a/1", 1, "2"}, {"b", 2, "3"}});
  EXPECT_EQ(Next(missing, 1).status().code(), Code::kSchema);
  EXPECT_EQ(Next(others[0], 1).value(), Values{"3"});
  Commit({{"c", 3, "4"}, {"f", 3, "5"}});
  EXPECT_EQ(Next(others[1], 1).value(), Values{"4"});
  EXPECT_EQ(Next(others[4], 1).value(), Values{"5"});
  for (const Client& other : others) WaitUntilLive(other);
}

TEST_F(HubTest, FindsPlacesBesideAGenerationWithoutALog) {
  Commit({{"a/1", 1, "1"}});
  RotateToState(shard_);
  Commit({{"a/1", 2, "2"}});
  const std::vector<Filter> filters{Filter::Parse("a/+").value()};
  const auto found = hub_->Find(0, filters, {At(1, 0)}, nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->rows.size(), 1U);
  // Whoever asks was given the messages, and so were those behind that generation.
  const auto behind = hub_->Find(0, filters, {At(1, 0), At(3, 0)}, nullptr);
  ASSERT_TRUE(behind.ok()) << behind.status().message();
  EXPECT_EQ(behind->rows.size(), 1U);
}

TEST_F(HubTest, EndsWithTheDatabase) {
  const Client client = Add("b");
  WaitUntilLive(client);
  ASSERT_TRUE(hub_->CheckNotForked().ok());
  shard_.reset();
  ASSERT_TRUE(database_->Close().ok());
  const Status status = Next(client, 1).status();
  EXPECT_EQ(status.code(), Code::kClosed);
  EXPECT_NE(status.message().find(directory_ / "db is closed"), std::string::npos)
      << status.message();
  EXPECT_EQ(hub_->Stats().subscriptions, 0U);
  EXPECT_EQ(hub_->Find(0, {}, {}, nullptr).status().code(), Code::kClosed);
}

TEST(SubscriptionHub, ManyAtOnePlaceReadOnce) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  for (int i = 0; i < 50; ++i) AppendCounted(*database, "a", i * 100, (i + 1) * 100);
  std::vector<std::unique_ptr<Subscription>> subscriptions;
  constexpr int kCount = 20;
  // Each subscription has room for everything, so that what it reads does not depend on when the
  // others take their messages.
  const SubscribeWindow window{5'000, 1 << 20};
  for (int i = 0; i < kCount; ++i) subscriptions.push_back(Subscribe(*database, "#", {}, window));
  for (const auto& subscription : subscriptions) {
    EXPECT_EQ(Take(*subscription, 5'000), Counted(0, 5'000));
  }
  // A page has room for all these messages. It is read once for the subscriptions that wait at that
  // moment; others may come later.
  const SubscriptionStats stats = database->subscriptions().GetStats().value();
  EXPECT_EQ(stats.subscriptions, 20U);
  EXPECT_LE(stats.catch_up_reads, 8U);
  for (const auto& subscription : subscriptions) {
    WaitUntilLive(*subscription);
  }
  const std::uint64_t before = database->subscriptions().GetStats()->live_reads;
  AppendCounted(*database, "a", 5'000, 5'010);
  for (const auto& subscription : subscriptions) {
    const auto delivery = subscription->Next(kPatience).value();
    ASSERT_TRUE(delivery.has_value());
    EXPECT_TRUE(delivery->is_live);
  }
  EXPECT_EQ(database->subscriptions().GetStats()->live_reads, before + 1);
}

TEST(SubscriptionHub, OneThatDoesNotReadHoldsUpNobody) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto lazy = Subscribe(*database, "#", {}, {10, 1 << 20});
  const auto busy = Subscribe(*database, "#", {}, {100, 1 << 20});
  for (int i = 0; i < 100; ++i) {
    AppendCounted(*database, "a", i * 10, (i + 1) * 10);
    EXPECT_EQ(Take(*busy, 10), Counted(i * 10, (i + 1) * 10));
  }
  EXPECT_EQ(Take(*lazy, 1'000), Counted(0, 1'000));
}

TEST(SubscriptionHub, NobodyBeginsWithWhatWasDeleted) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  for (int i = 0; i < 20; ++i)
    AppendCounted(*database, i % 2 == 0 ? "a" : "b", i * 100, i * 100 + 100);
  const auto slow = Subscribe(*database, "#", {}, {10, 1 << 20});
  const auto first = slow->Next(kPatience).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(TakeAll(*database, "#").size(), 2'000U);  // the hub keeps the pages
  ASSERT_TRUE(database->Delete(Filter::Parse("a").value(), {}).ok());
  EXPECT_EQ(TakeAll(*database, "#").size(), 1'000U);
  EXPECT_TRUE(TakeAll(*database, "a").empty());
  EXPECT_EQ(TakeAll(*database, "b").size(), 1'000U);
  ASSERT_TRUE(database->Delete(Filter::Everything(), {}).ok());
  EXPECT_TRUE(TakeAll(*database, "#").empty());
  ASSERT_TRUE(slow->Acknowledge(first->seqno).ok());
  AppendCounted(*database, "c", 0, 1);
  EXPECT_EQ(Take(*slow, 1), Counted(0, 1));  // nor does `slow` get what was deleted
}

TEST(SubscriptionHub, NobodyBeginsWithWhatWasDroppedWithItsGeneration) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 1'000);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  AppendCounted(*database, "a", 1'000, 1'500);
  const auto slow = Subscribe(*database, "#", {}, {10, 1 << 20});
  const auto first = slow->Next(kPatience).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(TakeAll(*database, "#").size(), 1'500U);
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  EXPECT_EQ(TakeAll(*database, "#"), Counted(1'000, 1'500));
  ASSERT_TRUE(slow->Acknowledge(first->seqno).ok());
  EXPECT_EQ(Take(*slow, 500), Counted(1'000, 1'500));
}

TEST(SubscriptionHub, AReadOnlyHandleKeepsNothingOfWhatWasDeleted) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 2'000);
  OpenOptions options;
  options.read_only = true;
  const auto reader = std::move(Database::Open(directory / "db", options)).value();
  const auto slow = Subscribe(*reader, "#", {}, {10, 1 << 20});
  EXPECT_EQ(TakeAll(*reader, "#").size(), 2'000U);
  ASSERT_TRUE(database->Delete(Filter::Everything(), {}).ok());
  ASSERT_TRUE(reader->Refresh().ok());
  EXPECT_TRUE(TakeAll(*reader, "#").empty());
}

}  // namespace
}  // namespace topicdb
