#include "store/catalog/descriptor.h"

#include <gtest/gtest.h>

#include <chrono>

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
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"#", 1us}, {"a", 1us}}; }), Code::kSchema);
  EXPECT_EQ(code([](SchemaRequest* r) { r->retention = {{"a", 1us}, {"a", 2us}}; }), Code::kSchema);
}

}  // namespace
}  // namespace topicdb
