#include "replication/entry.h"

#include <gtest/gtest.h>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "every_damage.h"
#include "hex.h"

namespace topicdb::replication {
namespace {

Entry Batch() {
  Entry entry;
  entry.kind = EntryKind::kBatch;
  entry.epoch = 3;
  entry.number = 258;
  entry.previous_serial = Serial{7};
  entry.serial = Serial{9};
  entry.families = {{5, {RetentionClassId{1}, Generation{300}, FamilyPart::kPages}}};
  entry.body = "body";
  return entry;
}

void ExpectEqual(const Entry& one, const Entry& other) {
  EXPECT_EQ(one.kind, other.kind);
  EXPECT_EQ(one.epoch, other.epoch);
  EXPECT_EQ(one.number, other.number);
  EXPECT_EQ(one.previous_serial, other.previous_serial);
  EXPECT_EQ(one.serial, other.serial);
  EXPECT_EQ(one.families, other.families);
  EXPECT_EQ(one.dropped, other.dropped);
  EXPECT_EQ(one.part, other.part);
  EXPECT_EQ(one.parts, other.parts);
  EXPECT_EQ(one.body, other.body);
}

// The bytes are in the logs of replicated databases: they must not change.
TEST(ReplicatedEntry, HasTheseBytes) {
  EXPECT_EQ(ToHex(Encode(Batch())),
            "0102030000000000000002010000000000000700000000000000090000000000000001050301ac02626f64"
            "7983902c0458735d1f");
  Entry lead;
  lead.kind = EntryKind::kLead;
  EXPECT_EQ(ToHex(Encode(lead)), "010100000000000000000000000000000000fcbe35fac7e0cd10");
  Entry drop;
  drop.kind = EntryKind::kDrop;
  drop.epoch = 1;
  drop.number = 2;
  drop.dropped = {{RetentionClassId{}, Generation{1}, FamilyPart::kKeys},
                  {RetentionClassId{2}, Generation{3}, FamilyPart::kBlocks}};
  EXPECT_EQ(ToHex(Encode(drop)),
            "010401000000000000000200000000000000020100010202037986f648bd4a953c");
  Entry part;
  part.kind = EntryKind::kPart;
  part.epoch = 1;
  part.number = 2;
  part.part = 3;
  part.parts = 258;
  part.body = "part";
  EXPECT_EQ(ToHex(Encode(part)),
            "0105010000000000000002000000000000000300000002010000706172748e09edc634d90f30");
  Entry digest;
  digest.kind = EntryKind::kDigest;
  digest.epoch = 1;
  digest.number = 2;
  EXPECT_EQ(ToHex(Encode(digest)), "010601000000000000000200000000000000886dd508231126b8");
}

TEST(ReplicatedEntry, IsDecodedAsItWasEncoded) {
  std::vector<Entry> entries(6, Batch());
  entries[1].kind = EntryKind::kPages;
  entries[1].families.clear();
  entries[1].body = {};
  entries[2] = {};
  entries[2].kind = EntryKind::kDrop;
  entries[2].dropped = {{RetentionClassId{UINT32_MAX}, Generation{UINT32_MAX}, FamilyPart::kKeys}};
  entries[3] = {};
  entries[3].kind = EntryKind::kLead;
  entries[3].epoch = UINT64_MAX;
  entries[4] = {};
  entries[4].kind = EntryKind::kPart;
  entries[4].part = 6;
  entries[4].parts = 7;
  entries[4].body = "bytes of an entry";
  entries[5] = {};
  entries[5].kind = EntryKind::kDigest;
  entries[5].epoch = 3;
  entries[5].number = 9;
  for (const Entry& entry : entries) {
    const std::string bytes = Encode(entry);
    const auto decoded = DecodeEntry(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    ExpectEqual(*decoded, entry);
  }
}

TEST(ReplicatedEntry, EveryDamageIsRefused) {
  const std::string bytes = Encode(Batch());
  ForEachDamage(bytes, [](const std::string& damaged) {
    EXPECT_EQ(DecodeEntry(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

// Gives bytes the hash that Encode would give them.
std::string WithHash(std::string content) {
  const std::uint64_t hash = Hash64(content);
  AppendLittle<std::uint64_t>(&content, hash);
  return content;
}

TEST(ReplicatedEntry, OneOfALaterVersionIsNotTakenForDamage) {
  std::string content = Encode(Batch());
  content.resize(content.size() - 8);
  // The version, and kinds that this version does not know.
  for (const auto& [at, byte] : {std::pair(0, 9), std::pair(1, 9), std::pair(1, 7)}) {
    std::string later = content;
    later[at] = static_cast<char>(byte);
    const Status status = DecodeEntry(WithHash(later)).status();
    EXPECT_EQ(status.code(), Code::kSchema);
    EXPECT_NE(status.message().find("upgrade TopicDB"), std::string::npos) << status.message();
  }
}

TEST(ReplicatedEntry, AFamilyThatCannotBeIsRefused) {
  std::string content = Encode(Batch());
  content.resize(content.size() - 8);
  const std::size_t part = 2 + 8 + 8 + 8 + 8 + 1 + 1;
  for (const char wrong : {0, 4}) {
    std::string malformed = content;
    malformed[part] = wrong;
    EXPECT_EQ(DecodeEntry(WithHash(malformed)).status().code(), Code::kCorruption);
  }
}

TEST(ReplicatedEntry, APartThatCannotBeIsRefused) {
  Entry part;
  part.kind = EntryKind::kPart;
  part.part = 2;
  part.parts = 2;
  EXPECT_EQ(DecodeEntry(Encode(part)).status().code(), Code::kCorruption);
}

TEST(ReplicatedEntry, AFamilyHasTheSameNameInEveryReplica) {
  for (const FamilyPart part : {FamilyPart::kKeys, FamilyPart::kBlocks, FamilyPart::kPages}) {
    const SlabFamily family{RetentionClassId{4}, Generation{12}, part};
    SlabFamily decoded;
    ASSERT_TRUE(DecodeName(NameOf(family), &decoded));
    EXPECT_EQ(decoded, family);
  }
  SlabFamily family;
  EXPECT_FALSE(DecodeName("default", &family));
}

}  // namespace
}  // namespace topicdb::replication
