#include "topicdb/types/iterator.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "every_damage.h"

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
  return iterator;
}

TEST(Iterator, RoundTripsAndNoticesDamage) {
  const std::vector<Position> positions = {
      {Position::Kind::kAtTime, 5, kNoSerial, 0, {}},
      {Position::Kind::kAfterMessage, 5, Serial{1ULL << 40}, 7, {}},
      {Position::Kind::kAfterKey, 0, kNoSerial, 0, std::string("a\0b\0", 4)}};
  for (const Position& position : positions) {
    const Iterator iterator = ExampleIterator(position);
    EXPECT_EQ(Iterator::Decode(iterator.Encode()).value(), iterator);
    ForEachDamage(iterator.Encode(), [](const std::string& bytes) {
      EXPECT_EQ(Iterator::Decode(bytes).status().code(), Code::kCorruption);
    });
  }
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

}  // namespace
}  // namespace topicdb
