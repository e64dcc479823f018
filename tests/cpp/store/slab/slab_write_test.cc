#include "store/slab/slab_write.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/blocks.h"
#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

constexpr SlabId kSlab{0, RetentionClassId{0}, Generation{9}};

// A log that takes nothing.
class FullLog : public rocks::ShardLog {
 public:
  Status Write(const rocks::ShardEntry&, rocksdb::WriteBatch*) override {
    return StorageFault("the disk is full");
  }
  Status Sync() override { return Status::Ok(); }
  Status CheckInPlace() const override { return Status::Ok(); }
  Status MayWrite() const override { return Status::Ok(); }
  std::uint64_t bytes() const override { return 0; }
};

// A slab that nobody knows yet, in the RocksDB of a shard.
class SlabWriteTest : public ::testing::Test {
 protected:
  static OpenOptions Options(LayoutKind layout) {
    OpenOptions options;
    options.schema.layout = layout;
    options.seal_bytes = 64 << 10;
    return options;
  }
  explicit SlabWriteTest(LayoutKind layout = LayoutKind::kColumnar) : shard_(Options(layout)) {
    const MutexLock lock(shard_.state.mutex);
    FamiliesByName families = shard_.maker.MakeFamilies({{kSlab, layout}}).value();
    const auto record = shard_.state.environment->NewSlabRecord(kSlab, layout, {});
    slab_ = shard_.maker.Make(kSlab, record, nullptr, &families, &records_).value();
  }

  SlabWrite NewWrite() {
    return {shard_.state.db.get(), shard_.state.log().get(), shard_.state.environment->seal_limits,
            slab_.get()};
  }
  RocksSource Source() const { return {shard_.state.db.get(), nullptr, slab_->families()}; }
  // Returns the messages of the slab in the order of commits.
  std::vector<std::string> Values() const {
    const auto reader = slab_->log()->NewLogReader(Source(), AllMessages(), kNoSerial);
    Batch batch(/*keeps_serials=*/true);
    std::vector<std::string> values;
    while (true) {
      const auto head = reader->Head(nullptr);
      EXPECT_TRUE(head.ok()) << head.status().message();
      if (!head.ok() || !head->has_value()) break;
      reader->Read({kLastSerial, 0}, {}, &batch, nullptr);
    }
    for (std::size_t row = 0; row < batch.size(); ++row) values.emplace_back(batch.value(row));
    return values;
  }
  static ReadRequest AllMessages() {
    ReadRequest request;
    request.filter = Filter::Everything();
    return request;
  }
  std::size_t SealedBlocks() const {
    std::size_t sealed = 0;
    const auto blocks = ListBlocks(Source(), {AllMessages()});
    EXPECT_TRUE(blocks.ok()) << blocks.status().message();
    for (const BlockInfo& block : *blocks) sealed += block.sealed ? 1 : 0;
    return sealed;
  }

  ShardParts shard_;
  rocksdb::WriteBatch records_;  // of the empty slab
  std::shared_ptr<Slab> slab_;
};

class SlabWriteOfStateTest : public SlabWriteTest {
 protected:
  SlabWriteOfStateTest() : SlabWriteTest(LayoutKind::kSkipstream) {}
};

TEST_F(SlabWriteTest, MessagesKeepTheirPlacesAndAreSealed) {
  SlabWrite write = NewWrite();
  ASSERT_TRUE(write.Take({"a/1", 30, Serial{5}, 2, "one"}).ok());
  ASSERT_TRUE(write.Take({"b", 10, Serial{5}, 7, "two"}).ok());
  ASSERT_TRUE(write.Take({"a/1", 20, Serial{9}, 0, "three"}).ok());
  EXPECT_EQ(slab_->Info({}).messages, 0U) << "nothing is written before there is much";
  ASSERT_TRUE(write.Finish(/*read_only=*/true).ok());
  EXPECT_EQ(write.serial_max(), Serial{9});
  EXPECT_EQ(Values(), (std::vector<std::string>{"one", "two", "three"}));
  const SlabInfo info = slab_->Info({});
  EXPECT_EQ(info.messages, 3U);
  EXPECT_EQ(info.bytes, 3U + 3 + 1 + 3 + 3 + 5);
  EXPECT_EQ(info.first_timestamp, 10);
  EXPECT_EQ(info.last_timestamp, 30);
  EXPECT_EQ(slab_->layout_state()->fresh_blocks, 0U);
  EXPECT_EQ(SealedBlocks(), 1U);
  const auto reader = slab_->log()->NewLogReader(Source(), AllMessages(), kNoSerial);
  EXPECT_EQ(reader->Head(nullptr).value(), (CommitPlace{Serial{5}, 2}));
}

TEST_F(SlabWriteTest, TheRecordsMakeTheSlabAgain) {
  SlabWrite write = NewWrite();
  for (int i = 0; i < 150; ++i) {
    const std::string topic = "site/" + std::to_string(i);
    ASSERT_TRUE(write.Take({topic, i, Serial{5}, static_cast<std::uint32_t>(i), "v"}).ok());
  }
  ASSERT_TRUE(write.Finish(false).ok());
  ASSERT_TRUE(write.PutRecords(&records_).ok());
  rocksdb::DB* db = shard_.state.db.get();
  ASSERT_TRUE(db->Write({}, &records_).ok());
  std::string bytes;
  meta::SlabCounters counters;
  ASSERT_TRUE(db->Get({}, meta::CountersKey(kSlab), &bytes).ok());
  ASSERT_TRUE(meta::Decode(bytes, &counters));
  EXPECT_EQ(counters.messages, 150U);
  EXPECT_EQ(counters.last_timestamp, 149);

  StructureTrie trie(shard_.state.environment->learning);
  const std::string prefix = meta::NodePrefix(kSlab);
  const std::unique_ptr<rocksdb::Iterator> nodes(db->NewIterator(rocksdb::ReadOptions()));
  for (nodes->Seek(prefix); nodes->Valid() && nodes->key().starts_with(prefix); nodes->Next()) {
    NodeRecord node;
    ASSERT_TRUE(meta::Decode(nodes->key().ToStringView(), nodes->value().ToStringView(), &node));
    ASSERT_TRUE(trie.Restore(node).ok());
  }
  std::vector<std::string_view> varying;
  for (const std::string topic : {"site/0", "site/149", "site/200"}) {
    EXPECT_EQ(trie.Find(topic, &varying), slab_->FindStream(topic, &varying)) << topic;
    EXPECT_NE(trie.Find(topic, &varying), kNoStream) << topic;
  }
}

TEST_F(SlabWriteTest, ManyMessagesAreWrittenAndSealedOnTheWay) {
  constexpr std::uint32_t kCount = 40'000;
  SlabWrite write = NewWrite();
  std::vector<std::string> expected;
  for (std::uint32_t i = 0; i < kCount; ++i) expected.push_back(std::to_string(i));
  std::size_t sealed = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(write.Take({"a", i, Serial{1 + i / 100}, i % 100, expected[i]}).ok());
    if (i + 1 == kCount) sealed = SealedBlocks();
  }
  EXPECT_GT(sealed, 0U) << "what is fresh does not pile up";
  const std::uint64_t written = slab_->Info({}).messages;
  EXPECT_GT(written, 0U);
  EXPECT_LT(written, kCount);
  ASSERT_TRUE(write.Finish(false).ok());
  EXPECT_EQ(slab_->Info({}).messages, kCount);
  EXPECT_EQ(slab_->layout_state()->fresh_blocks, 0U);
  EXPECT_EQ(Values(), expected);
  EXPECT_EQ(write.serial_max(), Serial{400});
}

TEST_F(SlabWriteTest, MessagesThatComeTooLateBeginABlock) {
  SlabWrite write = NewWrite();
  ASSERT_TRUE(write.Take({"a", 1, Serial{7}, 0, "seven"}).ok());
  ASSERT_TRUE(write.Take({"a", 1, Serial{3}, 1, "three"}).ok());
  EXPECT_EQ(slab_->layout_state()->fresh_blocks, 1U);
  ASSERT_TRUE(write.Take({"b", 1, Serial{3}, 2, "three too"}).ok());
  ASSERT_TRUE(write.Take({"b", 1, Serial{9}, 0, "nine"}).ok());
  EXPECT_EQ(slab_->layout_state()->fresh_blocks, 1U) << "these are in order";
  ASSERT_TRUE(write.Finish(/*read_only=*/true).ok());
  EXPECT_EQ(Values(), (std::vector<std::string>{"three", "three too", "seven", "nine"}));
}

TEST_F(SlabWriteTest, OfNoMessagesLeavesTheSlabEmpty) {
  SlabWrite write = NewWrite();
  ASSERT_TRUE(write.Finish(true).ok());
  EXPECT_EQ(write.serial_max(), kNoSerial);
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(write.PutRecords(&batch).ok());
  EXPECT_EQ(batch.Count(), 1U) << "the counters";
  EXPECT_TRUE(Values().empty());
}

TEST_F(SlabWriteTest, ALogThatFailsChangesNothing) {
  FullLog log;
  SlabWrite write(shard_.state.db.get(), &log, shard_.state.environment->seal_limits, slab_.get());
  ASSERT_TRUE(write.Take({"a", 1, Serial{1}, 0, "value"}).ok());
  EXPECT_EQ(write.Finish(true).code(), Code::kStorage);
  EXPECT_EQ(slab_->Info({}).messages, 0U);
  EXPECT_EQ(slab_->Info({}).streams, 0U);
  EXPECT_EQ(slab_->layout_state()->fresh_blocks, 0U);
  EXPECT_TRUE(Values().empty());
}

TEST_F(SlabWriteOfStateTest, ALayoutWithoutALogHasNothingToSeal) {
  SlabWrite write = NewWrite();
  ASSERT_TRUE(write.Take({"a/b", 5, Serial{3}, 0, "old"}).ok());
  ASSERT_TRUE(write.Take({"a/b", 5, Serial{4}, 0, "new"}).ok());
  ASSERT_TRUE(write.Finish(true).ok());
  EXPECT_EQ(slab_->Info({}).messages, 2U) << "each that was written counts";
  std::vector<std::string_view> varying;
  const StreamId stream = slab_->FindStream("a/b", &varying);
  const auto found =
      slab_->layout().Get(Source(), {stream, "a/b", varying, 5, kNoSerial, 0, {}}, {});
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->value, "new");
  EXPECT_EQ((*found)->serial, Serial{4});
}

}  // namespace
}  // namespace topicdb
