#include "store/catalog/meta.h"

#include <gtest/gtest.h>

#include <chrono>

namespace topicdb::meta {
namespace {

using namespace std::chrono_literals;

constexpr SlabId kSlab{3, RetentionClassId{0x01020304}, Generation{0x05060708}};

// Expects that Decode refuses each shorter prefix, a longer string, and another version.
template <typename Record>
void ExpectOnlyWholeRecords(const std::string& bytes) {
  Record record;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decode(bytes.substr(0, size), &record)) << size;
  }
  EXPECT_FALSE(Decode(bytes + '\0', &record));
  EXPECT_FALSE(Decode('\2' + bytes.substr(1), &record));
}

TEST(Meta, KeysAreTheBytesThatTheFormatDraws) {
  EXPECT_EQ(IdentityKey(), "\1");
  EXPECT_EQ(CommitStateKey(), "\2");
  EXPECT_EQ(AppliedKey(), "\15");
  EXPECT_EQ(ReplicatedRulesKey(), "\16");
  EXPECT_EQ(SlabKey(kSlab), "\3\1\2\3\4\5\6\7\10");
  EXPECT_EQ(CountersKey(kSlab), "\4\1\2\3\4\5\6\7\10");
  EXPECT_EQ(NodeKey(kSlab, 0x090a0b0c), "\5\1\2\3\4\5\6\7\10\x09\x0a\x0b\x0c");
  EXPECT_TRUE(NodeKey(kSlab, 9).starts_with(NodePrefix(kSlab)));
  EXPECT_TRUE(SlabKey(kSlab).starts_with(SlabPrefix()));
}

TEST(Meta, DropsRoundTrip) {
  const DropRecord drop{
      Serial{0x0102},
      "site/#",
      Generation{3},
      TimeAt<WallTime>(1'000),
      2'000,
      {{"site/+/a", {{Serial{5}, 10}, {Serial{300}, 1}}}, {"site/#", {{Serial{7}, 2}}}}};
  const std::string bytes = Encode(drop);
  EXPECT_EQ(DropKey(drop.serial), std::string("\x0c\0\0\0\0\0\0\1\2", 9));
  EXPECT_EQ(bytes.substr(0, 8), std::string("\1\6site/#", 8));
  EXPECT_EQ(bytes.substr(8 + 20), std::string("\x08site/+/a\2\5\x0a\xa7\2\1"
                                              "\x06site/#\1\7\2",
                                              25));
  DropRecord decoded;
  ASSERT_TRUE(Decode(DropKey(drop.serial), bytes, &decoded));
  EXPECT_EQ(decoded, drop);
  EXPECT_FALSE(Decode(DropKey(drop.serial) + "x", bytes, &decoded));
  EXPECT_FALSE(Decode(DropKey(drop.serial), bytes.substr(0, bytes.size() - 1), &decoded));
  EXPECT_FALSE(Decode(DropKey(drop.serial), '\2' + bytes.substr(1), &decoded));
  EXPECT_FALSE(Decode(DropKey(drop.serial), "", &decoded));
}

TEST(Meta, SlabKeysAreReadBackAndOthersRefused) {
  SlabId slab{3, {}, {}};
  ASSERT_TRUE(DecodeSlabKey(SlabKey(kSlab), &slab));
  EXPECT_EQ(slab, kSlab);
  EXPECT_FALSE(DecodeSlabKey(CountersKey(kSlab), &slab));
  EXPECT_FALSE(DecodeSlabKey(SlabKey(kSlab) + "x", &slab));
  EXPECT_FALSE(DecodeSlabKey(SlabKey(kSlab).substr(0, 8), &slab));
}

TEST(Meta, IdentityRoundTrips) {
  Identity identity;
  identity.database.fill(0xa5);
  identity.shard = 1023;
  Identity decoded;
  ASSERT_TRUE(Decode(Encode(identity), &decoded));
  EXPECT_EQ(decoded, identity);
  ExpectOnlyWholeRecords<Identity>(Encode(identity));
}

TEST(Meta, CommitStateRoundTrips) {
  const CommitState state{Serial{1ULL << 50}, -1, Serial{1ULL << 51}};
  CommitState decoded;
  ASSERT_TRUE(Decode(Encode(state), &decoded));
  EXPECT_EQ(decoded.serial, state.serial);
  EXPECT_EQ(decoded.assigned_timestamp, state.assigned_timestamp);
  EXPECT_EQ(decoded.serial_limit, state.serial_limit);
  ExpectOnlyWholeRecords<CommitState>(Encode(state));
}

TEST(Meta, TheVersionOfTheRulesRoundTrips) {
  std::uint64_t version = 0;
  ASSERT_TRUE(DecodeRules(EncodeRules(7), &version));
  EXPECT_EQ(version, 7U);
  EXPECT_FALSE(DecodeRules(EncodeRules(7).substr(1), &version));
  EXPECT_FALSE(DecodeRules(EncodeRules(7) + "x", &version));
}

TEST(Meta, ClockRoundTrips) {
  LeapRecord record{
      {{}, BootTime(5us), WallTime(6us)}, -7us, 8us, BootTime(9us), 10us, BootTime(11us)};
  record.at.boot.fill(0xa5);
  LeapRecord decoded;
  ASSERT_TRUE(Decode(Encode(record), &decoded));
  EXPECT_EQ(decoded, record);
  ExpectOnlyWholeRecords<LeapRecord>(Encode(record));
}

TEST(Meta, SlabRecordsRoundTripAndUnknownKindsAreRefused) {
  const SlabRecord record{SlabState::kReadOnly, LayoutKind::kSkipstream, 0, NotedTime(5us),
                          NotedTime(6us)};
  const std::string bytes = Encode(record);
  SlabRecord kept = record;
  kept.keep_last = 70'000;
  SlabRecord decoded;
  ASSERT_TRUE(Decode(Encode(kept), &decoded));
  EXPECT_EQ(decoded.keep_last, 70'000U);
  EXPECT_FALSE(Decode(Encode(kept).substr(0, bytes.size() + 3), &decoded));
  ASSERT_TRUE(Decode(bytes, &decoded));
  EXPECT_EQ(decoded.state, record.state);
  EXPECT_EQ(decoded.layout, record.layout);
  EXPECT_EQ(decoded.timestamp_bytes, record.timestamp_bytes);
  EXPECT_EQ(decoded.created_at, record.created_at);
  EXPECT_EQ(decoded.sealed_at, record.sealed_at);
  EXPECT_EQ(decoded.keep_last, 0U);
  EXPECT_EQ(decoded.begun_at, kNoSerial);
  SlabRecord begun = record;
  begun.begun_at = Serial{std::uint64_t{1} << 40};
  ASSERT_TRUE(Decode(Encode(begun), &decoded));
  EXPECT_EQ(decoded.begun_at, begun.begun_at);
  EXPECT_EQ(decoded.keep_last, 0U);
  EXPECT_FALSE(Decode(Encode(begun).substr(0, bytes.size() + 11), &decoded));
  ExpectOnlyWholeRecords<SlabRecord>(bytes);
  for (std::size_t field = 1; field <= 2; ++field) {  // the bytes of state and layout
    for (const char unknown : {'\0', '\x7f'}) {
      std::string changed = bytes;
      changed[field] = unknown;
      EXPECT_FALSE(Decode(changed, &decoded)) << field;
    }
  }
}

TEST(Meta, CountersRoundTrip) {
  const SlabCounters counters{7, 1ULL << 60, 3, INT64_MAX};
  SlabCounters decoded;
  ASSERT_TRUE(Decode(Encode(counters), &decoded));
  EXPECT_EQ(decoded.messages, counters.messages);
  EXPECT_EQ(decoded.bytes, counters.bytes);
  EXPECT_EQ(decoded.first_timestamp, counters.first_timestamp);
  EXPECT_EQ(decoded.last_timestamp, counters.last_timestamp);
  ExpectOnlyWholeRecords<SlabCounters>(Encode(counters));
}

TEST(Meta, JobsRoundTripAndBadSpansAreRefused) {
  JobRecord job{{9, Serial{20}, Serial{25}, WallTime(1'700'000'000s), {0, 3}},
                WallTime(1'700'000'001s),
                7,
                1,
                {}};
  for (std::uint64_t number = 0; number <= kJobSpansMax; ++number) {
    const std::string bytes = Encode(job);
    JobRecord decoded;
    ASSERT_TRUE(Decode(bytes, &decoded)) << number;
    EXPECT_EQ(decoded, job);
    EXPECT_FALSE(Decode(bytes.substr(0, bytes.size() - 1), &decoded));
    job.earlier.push_back({number, Serial{number + 1}, Serial{number + 1}, WallTime(-1us), {2}});
  }
  JobRecord decoded;
  EXPECT_FALSE(Decode(Encode(job), &decoded));  // one job more than kJobSpansMax
  job.earlier = {{1, Serial{2}, Serial{1}, WallTime(), {}}};
  EXPECT_FALSE(Decode(Encode(job), &decoded));  // ends before it begins
  job.earlier = {{1, Serial{2}, Serial{2}, WallTime(), {3, 1}}};
  EXPECT_FALSE(Decode(Encode(job), &decoded));  // its shards are not sorted
}

TEST(Meta, IdsOfAppendsRoundTrip) {
  const KnownAppend known{Serial{5}, 1ULL << 40, {0, 1, 2, 255}};
  const std::string key = AppendIdKey(known.serial);
  EXPECT_TRUE(key.starts_with(AppendIdPrefix()));
  EXPECT_LT(key, AppendIdKey(Serial{256}));
  const std::string bytes = Encode("an id", known);
  std::string id;
  KnownAppend decoded;
  ASSERT_TRUE(Decode(key, bytes, &id, &decoded));
  EXPECT_EQ(id, "an id");
  EXPECT_EQ(decoded, known);
  EXPECT_FALSE(Decode(key + "x", bytes, &id, &decoded));
  EXPECT_FALSE(Decode(key, bytes.substr(0, 25), &id, &decoded));  // the id is missing
  EXPECT_FALSE(Decode(key, bytes.substr(0, 20), &id, &decoded));
  EXPECT_FALSE(Decode(key, "\x02" + bytes.substr(1), &id, &decoded));
  EXPECT_FALSE(Decode(key, Encode(std::string(kAppendIdBytesMax + 1, 'x'), known), &id, &decoded));
}

TEST(Meta, NodesRoundTripAndUnknownKindsAreRefused) {
  const NodeRecord node{9, 4, NodeKind::kWord, true, std::string("w\0rd", 4)};
  const std::string key = NodeKey(kSlab, node.id);
  const std::string bytes = Encode(node);
  NodeRecord decoded;
  ASSERT_TRUE(Decode(key, bytes, &decoded));
  EXPECT_EQ(decoded.id, node.id);
  EXPECT_EQ(decoded.parent, node.parent);
  EXPECT_EQ(decoded.kind, node.kind);
  EXPECT_EQ(decoded.all_vary, node.all_vary);
  EXPECT_EQ(decoded.label, node.label);
  EXPECT_FALSE(Decode(key, "", &decoded));
  EXPECT_FALSE(Decode(key, '\2' + bytes.substr(1), &decoded));
  EXPECT_FALSE(Decode(key.substr(0, key.size() - 1), bytes, &decoded));
  EXPECT_FALSE(Decode(key + "x", bytes, &decoded));
}

TEST(Meta, DeletesComeBack) {
  for (const std::optional<std::int64_t> end : {std::optional<std::int64_t>(7), {}}) {
    const DeleteRecord record{
        Serial{12}, 3, {Filter::Parse("a/+/#").value(), {5, end}}, Generation{9}};
    const std::string key = DeleteKey(record.serial, record.index);
    EXPECT_TRUE(key.starts_with(DeletePrefix()));
    DeleteRecord read;
    ASSERT_TRUE(Decode(key, Encode(record), &read));
    EXPECT_EQ(read.serial, Serial{12});
    EXPECT_EQ(read.index, 3U);
    EXPECT_EQ(read.generation, Generation{9});
    EXPECT_EQ(read.keys.filter.text(), "a/+/#");
    EXPECT_TRUE(read.keys.range == record.keys.range);
    const std::string bytes = Encode(record);
    for (std::size_t size = 0; size < bytes.size() - 5; ++size) {
      EXPECT_FALSE(Decode(key, bytes.substr(0, size), &read)) << size;
    }
    EXPECT_FALSE(Decode(key + "x", bytes, &read));
    EXPECT_FALSE(Decode(key, bytes + "/more", &read)) << "no filter";
    EXPECT_FALSE(Decode(key, "\x02" + bytes.substr(1), &read)) << "another version";
  }
}

}  // namespace
}  // namespace topicdb::meta
