#include "topicdb/types/iterator.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "every_damage.h"
#include "hex.h"

namespace topicdb {
namespace {

Iterator ExampleIterator(Position position) {
  Iterator iterator;
  iterator.database.fill(9);
  iterator.slab = {3, RetentionClassId{1}, Generation{70'000}};
  iterator.stream = StreamId{12};
  iterator.filter = "a/+";
  iterator.position = std::move(position);
  iterator.end = 99;
  iterator.seen = Serial{(1ULL << 40) + 9};
  iterator.hidden = {{Serial{300}, Serial{302}}};
  iterator.exhausted = true;
  iterator.structure = "a/+";
  return iterator;
}

const Position kBehindAMessage{Position::Kind::kAfterMessage, 5, Serial{1ULL << 40}, 7, {}};

// As versions stored it that did not note what was seen.
Iterator OldIterator(Position position) {
  Iterator iterator = ExampleIterator(std::move(position));
  iterator.seen = kNoSerial;
  iterator.hidden = {};
  iterator.exhausted = false;
  iterator.structure = {};
  return iterator;
}

TEST(Iterator, RoundTripsAndNoticesDamage) {
  const std::vector<Position> positions = {
      {Position::Kind::kAtTime, 5, kNoSerial, 0, {}},
      kBehindAMessage,
      {Position::Kind::kAfterKey, 0, kNoSerial, 0, std::string("a\0b\0", 4)}};
  for (const Position& position : positions) {
    for (const Iterator& iterator : {ExampleIterator(position), OldIterator(position)}) {
      EXPECT_EQ(Iterator::Decode(iterator.Encode()).value(), iterator);
      ForEachDamage(iterator.Encode(), [](const std::string& bytes) {
        EXPECT_EQ(Iterator::Decode(bytes).status().code(), Code::kCorruption);
      });
    }
  }
}

TEST(Iterator, TheStoredFormsNeverChange) {
  const std::string golden =
      "22090909090909090909090909090909090301f0a2040c03612f2b0163020580808080802007898080808020"
      "01ac02ae020103612f2b7b1563e3";
  EXPECT_EQ(ToHex(ExampleIterator(kBehindAMessage).Encode()), golden);
  EXPECT_EQ(Iterator::Decode(FromHex(golden)).value(), ExampleIterator(kBehindAMessage));
  const std::string old =
      "21090909090909090909090909090909090301f0a2040c03612f2b0163020580808080802007aa4ccf59";
  EXPECT_EQ(ToHex(OldIterator(kBehindAMessage).Encode()), old);
  EXPECT_EQ(Iterator::Decode(FromHex(old)).value(), OldIterator(kBehindAMessage));
}

TEST(Iterator, RefusesWhatNoReadCanHaveSeen) {
  const auto refused = [](std::vector<SerialRange> hidden) {
    Iterator iterator = ExampleIterator(kBehindAMessage);
    iterator.hidden = std::move(hidden);
    return Iterator::Decode(iterator.Encode()).status().code() == Code::kCorruption;
  };
  EXPECT_TRUE(refused({{Serial{5}, Serial{4}}}));
  EXPECT_TRUE(refused({{kNoSerial, Serial{4}}}));
  EXPECT_TRUE(refused({{Serial{5}, Serial{6}}, {Serial{4}, Serial{4}}}));
  EXPECT_FALSE(refused({{Serial{4}, Serial{6}}, {Serial{5}, Serial{9}}}));
  EXPECT_FALSE(refused({}));
}

TEST(Stream, RoundTripsAndNoticesDamage) {
  Stream stream;
  stream.database.fill(1);
  stream.slab = {0, RetentionClassId{0}, Generation{1}};
  stream.id = StreamId{4};
  stream.retention_class = "#";
  stream.structure = "m/+/cpu";
  EXPECT_EQ(Stream::Decode(stream.Encode()).value(), stream);
  ForEachDamage(stream.Encode(), [](const std::string& bytes) {
    EXPECT_EQ(Stream::Decode(bytes).status().code(), Code::kCorruption);
  });
  EXPECT_FALSE(Iterator::Decode(stream.Encode()).ok());
}

// The scan of two shards, in the second one of them.
ScanIterator ExampleScan() {
  ScanIterator iterator;
  iterator.database.fill(9);
  iterator.filters = {"a/+", "b"};
  iterator.start = 5;
  iterator.end = 99;
  iterator.shards = {{0, Serial{7}, {}},
                     {3,
                      Serial{1ULL << 33},
                      {{RetentionClassId{1}, Generation{4}, Generation{6}, Serial{300}},
                       {RetentionClassId{2}, Generation{1}, Generation{1}, kNoSerial}}}};
  iterator.in_shard = 1;
  iterator.counted = Serial{(1ULL << 33) + 2};
  iterator.place = ScanPlace{0, kNoStream, {Position::Kind::kAfterMessage, 8, Serial{301}, 2, {}}};
  return iterator;
}

// Of every topic, at its end.
ScanIterator ScanAtEnd() {
  ScanIterator iterator;
  iterator.database.fill(9);
  iterator.shards = {{0, Serial{7}, {}}};
  iterator.in_shard = 1;
  return iterator;
}

TEST(ScanIterator, RoundTripsAndNoticesDamage) {
  ScanIterator before_a_slab = ExampleScan();
  before_a_slab.place.reset();
  ScanIterator in_a_stream = ExampleScan();
  in_a_stream.place = ScanPlace{1, StreamId{12}, {Position::Kind::kAfterKey, 0, {}, 0, "a"}};
  ScanIterator in_the_first = ExampleScan();
  in_the_first.in_shard = 0;
  in_the_first.place.reset();
  for (const ScanIterator& iterator :
       {ExampleScan(), before_a_slab, in_a_stream, in_the_first, ScanAtEnd()}) {
    EXPECT_EQ(ScanIterator::Decode(iterator.Encode()).value(), iterator);
    ForEachDamage(iterator.Encode(), [](const std::string& bytes) {
      EXPECT_EQ(ScanIterator::Decode(bytes).status().code(), Code::kCorruption);
    });
  }
}

TEST(ScanIterator, TheStoredFormNeverChanges) {
  const std::string golden =
      "31090909090909090909090909090909090203612f2b01620501630200070380808080200102010406ac02020101"
      "0082808080200100000208ad020226c6430d";
  EXPECT_EQ(ToHex(ExampleScan().Encode()), golden);
  EXPECT_EQ(ScanIterator::Decode(FromHex(golden)).value(), ExampleScan());
  const std::string at_end = "310909090909090909090909090909090900000001000701000cb738";
  EXPECT_EQ(ToHex(ScanAtEnd().Encode()), at_end);
  EXPECT_TRUE(ScanIterator::Decode(FromHex(at_end))->at_end());
}

TEST(ScanIterator, RefusesWhatNoScanCanBe) {
  const auto refused = [](auto change) {
    ScanIterator iterator = ExampleScan();
    change(&iterator);
    return ScanIterator::Decode(iterator.Encode()).status().code() == Code::kCorruption;
  };
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->filters = {"a/#/b"}; }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->start = -1; }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->end = -1; }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->shards[0].shard = 3; })) << "twice";
  EXPECT_TRUE(refused([](ScanIterator* scan) {
    std::swap(scan->shards[1].classes[0], scan->shards[1].classes[1]);
  }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->place->in_class = 2; }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->shards[1].classes[0].next = {}; }));
  EXPECT_TRUE(refused([](ScanIterator* scan) {
    scan->shards.clear();
    scan->in_shard = 0;
  }));
  EXPECT_TRUE(refused([](ScanIterator* scan) { scan->in_shard = 3; }));
  EXPECT_FALSE(refused([](ScanIterator*) {}));
  EXPECT_FALSE(ScanIterator::Decode(ExampleIterator({}).Encode()).ok());
  EXPECT_FALSE(Iterator::Decode(ExampleScan().Encode()).ok());
}

}  // namespace
}  // namespace topicdb
