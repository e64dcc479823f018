#include "store/catalog/descriptor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "every_damage.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

Descriptor ExampleDescriptor() {
  SchemaRequest request;
  request.shards = 3;
  request.timestamp_bytes = 0;
  request.structures = {"m/+/cpu/#"};
  request.thresholds = {7, 0};
  request.retention = {{"a/#", 5us}, {"#", 0us}};
  return MakeDescriptor(request).value();
}

TEST(Descriptor, RoundTrips) {
  const Descriptor descriptor = ExampleDescriptor();
  const auto decoded = DecodeDescriptor(EncodeDescriptor(descriptor), "f");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->id, descriptor.id);
  EXPECT_EQ(decoded->schema, descriptor.schema);
  EXPECT_EQ(decoded->created_at, descriptor.created_at);
}

TEST(Descriptor, LayoutsHaveNames) {
  EXPECT_EQ(LayoutNamed("columnar").value(), LayoutKind::kColumnar);
  EXPECT_EQ(LayoutNamed("skipstream").value(), LayoutKind::kSkipstream);
  const Status unknown = LayoutNamed("rows").status();
  EXPECT_EQ(unknown.code(), Code::kSchema);
  EXPECT_NE(unknown.message().find("'columnar' or 'skipstream', got 'rows'"), std::string::npos);
}

TEST(Descriptor, WithoutTimestampsThereIsOneLayoutAlone) {
  EXPECT_TRUE(CheckLayout(LayoutKind::kColumnar, 8).ok());
  EXPECT_TRUE(CheckLayout(LayoutKind::kSkipstream, 0).ok());
  EXPECT_EQ(CheckLayout(LayoutKind::kColumnar, 0).code(), Code::kSchema);
  const RetentionClass blocks{"a/#", 5us, 0, 0us, 0, LayoutKind::kColumnar};
  EXPECT_TRUE(CheckLayouts({{"b/#", 5us}, blocks}, 8).ok());
  const Status refused = CheckLayouts({{"b/#", 5us}, blocks}, 0);
  EXPECT_EQ(refused.code(), Code::kSchema);
  EXPECT_NE(refused.message().find("'a/#'"), std::string::npos) << refused.message();
  SchemaRequest request;
  request.timestamp_bytes = 0;
  request.retention = {blocks};
  EXPECT_EQ(MakeDescriptor(request).status().code(), Code::kSchema);
}

TEST(Descriptor, EveryDamagedByteIsCorruption) {
  ForEachDamage(EncodeDescriptor(ExampleDescriptor()), [](const std::string& bytes) {
    EXPECT_EQ(DecodeDescriptor(bytes, "f").status().code(), Code::kCorruption);
  });
}

// Returns the bytes of a descriptor with another format version.
std::string WithVersion(const Descriptor& descriptor, int version) {
  std::string bytes = EncodeDescriptor(descriptor);
  bytes[8] = static_cast<char>(version);
  std::string crc;
  AppendLittle<std::uint32_t>(&crc, Crc32(bytes.substr(20), Crc32(bytes.substr(0, 16))));
  return bytes.replace(16, 4, crc);
}

TEST(Descriptor, ANewerFormatIsNamed) {
  for (const int version : {0, 3, 9}) {
    const Status status = DecodeDescriptor(WithVersion(ExampleDescriptor(), version), "f").status();
    EXPECT_EQ(status.code(), Code::kSchema);
    EXPECT_NE(status.message().find("format " + std::to_string(version)), std::string::npos);
  }
}

// Versions of TopicDB that know no keys open databases that are sharded by topic, and say of the
// others that they are too new.
TEST(Descriptor, OnlyShardingByKeyNeedsTheNewFormat) {
  Descriptor descriptor = ExampleDescriptor();
  EXPECT_EQ(EncodeDescriptor(descriptor)[8], 1);
  EXPECT_TRUE(DecodeDescriptor(WithVersion(descriptor, 2), "f").ok());
  descriptor.schema.shard_by = ShardBy::kKey;
  const std::string bytes = EncodeDescriptor(descriptor);
  EXPECT_EQ(bytes[8], 2);
  const auto decoded = DecodeDescriptor(bytes, "f");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->schema, descriptor.schema);
  EXPECT_EQ(DecodeDescriptor(WithVersion(descriptor, 1), "f").status().code(), Code::kCorruption);
}

TEST(Descriptor, AnUnknownWayToShardIsCorruption) {
  Descriptor descriptor = ExampleDescriptor();
  for (const int way : {0, 3, 200}) {
    descriptor.schema.shard_by = static_cast<ShardBy>(way);
    EXPECT_EQ(DecodeDescriptor(EncodeDescriptor(descriptor), "f").status().code(),
              Code::kCorruption);
  }
}

TEST(Descriptor, AnotherWayToShardThanTheStoredOneIsRefused) {
  SchemaRequest request;
  Schema stored;
  EXPECT_TRUE(CheckAgreement(request, stored, "/db").ok());
  request.shard_by = ShardBy::kTopic;
  EXPECT_TRUE(CheckAgreement(request, stored, "/db").ok());
  request.shard_by = ShardBy::kKey;
  EXPECT_EQ(MakeDescriptor(request)->schema.shard_by, ShardBy::kKey);
  const Status status = CheckAgreement(request, stored, "/db");
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_EQ(status.message().rfind("shard_by: 'key' was asked for, but /db has 'topic'", 0), 0U)
      << status.message();
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
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"#", 1us}, {"a", 1us}}; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"a", 1us}, {"a", 2us}}; }), Code::kSchema);
}

}  // namespace
}  // namespace topicdb
