// Everything that is encoded outside RocksDB: descriptor, streams, iterators. Each byte counts.

#include <gtest/gtest.h>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "store/catalog/descriptor.h"
#include "topicdb/types/iterator.h"

namespace topicdb {
namespace {

// Calls check(bytes) for each byte flipped and for each shorter prefix.
template <typename Check>
void ForEachDamage(const std::string& bytes, Check check) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    check(flipped);
    check(bytes.substr(0, i));
  }
}

Descriptor ExampleDescriptor() {
  SchemaRequest request;
  request.shards = 3;
  request.timestamp_bytes = 0;
  request.structures = {"m/+/cpu/#"};
  request.thresholds = {7, 0};
  request.retention = {{"a/#", 5}, {"#", 0}};
  return MakeDescriptor(request).value();
}

TEST(Descriptor, RoundTrips) {
  const Descriptor descriptor = ExampleDescriptor();
  const auto decoded = DecodeDescriptor(EncodeDescriptor(descriptor), "f");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->id, descriptor.id);
  EXPECT_EQ(decoded->schema, descriptor.schema);
  EXPECT_EQ(decoded->created_at_us, descriptor.created_at_us);
}

TEST(Descriptor, EveryDamagedByteIsCorruption) {
  ForEachDamage(EncodeDescriptor(ExampleDescriptor()), [](const std::string& bytes) {
    EXPECT_EQ(DecodeDescriptor(bytes, "f").status().code(), Code::kCorruption);
  });
}

TEST(Descriptor, ANewerFormatIsNamed) {
  std::string bytes = EncodeDescriptor(ExampleDescriptor());
  bytes[8] = 2;
  std::string crc;
  AppendLittle<std::uint32_t>(&crc, Crc32(bytes.substr(20), Crc32(bytes.substr(0, 16))));
  bytes.replace(16, 4, crc);
  const Status status = DecodeDescriptor(bytes, "f").status();
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find("format 2"), std::string::npos);
}

TEST(Descriptor, ImpossibleSchemasAreRefused) {
  const auto code = [](auto change) {
    SchemaRequest request;
    change(&request);
    return MakeDescriptor(request).status().code();
  };
  EXPECT_EQ(code([](SchemaRequest* r) { r->shards = 0; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->shards = kShardsMax + 1; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->timestamp_bytes = 4; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->thresholds.emplace(); }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->structures = {"a+"}; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"#", 1}, {"a", 1}}; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"a", 1}, {"a", 2}}; }), Code::kSchema);
}

Iterator ExampleIterator(Position position) {
  Iterator iterator;
  iterator.database.fill(9);
  iterator.slab = {3, 1, 70'000};
  iterator.stream = 12;
  iterator.filter = "a/+";
  iterator.position = std::move(position);
  iterator.end = 99;
  return iterator;
}

TEST(Iterator, RoundTripsAndNoticesDamage) {
  const std::vector<Position> positions = {
      {Position::Kind::kAtTime, 5, 0, 0, {}},
      {Position::Kind::kAfterMessage, 5, 1ULL << 40, 7, {}},
      {Position::Kind::kAfterKey, 0, 0, 0, std::string("a\0b\0", 4)}};
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
  stream.slab = {0, 0, 1};
  stream.id = 4;
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
