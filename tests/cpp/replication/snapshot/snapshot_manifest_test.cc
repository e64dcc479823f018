#include "replication/snapshot/snapshot_manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "every_damage.h"
#include "hex.h"

namespace topicdb::replication {
namespace {

SnapshotManifest Manifest() {
  SnapshotManifest manifest;
  manifest.replica = 7;
  manifest.applied = {258, 4, 3, 2};
  manifest.serial = Serial{300};
  manifest.files = {{"000012.sst", 70'000, 0x1234}, {"CURRENT", 16, 5}};
  return manifest;
}

ChunkRequest Request() { return {258, "000012.sst", std::uint64_t{1} << 20, 4'096}; }

// Gives bytes the hash that Encode would give them.
std::string WithHash(std::string content) {
  const std::uint64_t hash = Hash64(content);
  AppendLittle<std::uint64_t>(&content, hash);
  return content;
}

std::string WithoutHash(std::string bytes) {
  bytes.resize(bytes.size() - 8);
  return bytes;
}

TEST(SnapshotManifest, HasTheseBytes) {
  EXPECT_EQ(ToHex(Encode(Manifest())),
            "01070000000000000002010000000000000400000000000000030000000000000002000000000000002c01"
            "000000000000020a30"
            "30303031322e737374701101000000000034120000000000000743555252454e5410000000000000000500"
            "000000000000a06094054b1d31de");
  EXPECT_EQ(ToHex(Encode(Request())),
            "0102010000000000000a3030303031322e7373740000100000000000001000005a30404d153531ad");
}

TEST(SnapshotManifest, IsDecodedAsItWasEncoded) {
  for (const SnapshotManifest& manifest : {Manifest(), SnapshotManifest()}) {
    EXPECT_EQ(DecodeManifest(Encode(manifest)).value(), manifest);
  }
  EXPECT_EQ(DecodeChunkRequest(Encode(Request())).value(), Request());
}

TEST(SnapshotManifest, EveryDamageIsRefused) {
  ForEachDamage(Encode(Manifest()), [](const std::string& damaged) {
    EXPECT_EQ(DecodeManifest(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
  ForEachDamage(Encode(Request()), [](const std::string& damaged) {
    EXPECT_EQ(DecodeChunkRequest(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

TEST(SnapshotManifest, OneOfALaterVersionIsNotTakenForDamage) {
  std::string manifest = WithoutHash(Encode(Manifest()));
  std::string request = WithoutHash(Encode(Request()));
  manifest[0] = request[0] = 9;
  EXPECT_EQ(DecodeManifest(WithHash(manifest)).status().code(), Code::kSchema);
  EXPECT_EQ(DecodeChunkRequest(WithHash(request)).status().code(), Code::kSchema);
}

// Names come from another machine.
TEST(SnapshotManifest, ANameThatLeadsElsewhereIsRefused) {
  for (const std::string name : {"", ".", "..", "/etc/passwd", "../CURRENT", "a/b"}) {
    SnapshotManifest manifest = Manifest();
    manifest.files[0].name = name;
    EXPECT_EQ(DecodeManifest(Encode(manifest)).status().code(), Code::kCorruption) << name;
    ChunkRequest request = Request();
    request.name = name;
    EXPECT_EQ(DecodeChunkRequest(Encode(request)).status().code(), Code::kCorruption) << name;
  }
}

TEST(SnapshotManifest, ARequestForTooMuchIsRefused) {
  ChunkRequest request = Request();
  request.bytes = kSnapshotChunkBytes;
  EXPECT_TRUE(DecodeChunkRequest(Encode(request)).ok());
  ++request.bytes;
  EXPECT_EQ(DecodeChunkRequest(Encode(request)).status().code(), Code::kCorruption);
}

// Replicas of different versions ask each other this.
TEST(SnapshotWish, HasTheseBytes) {
  const std::string bytes = Encode(SnapshotWish{258});
  EXPECT_EQ(ToHex(WithoutHash(bytes)), "030201000000000000");
  EXPECT_TRUE(IsSnapshotWish(bytes));
  EXPECT_FALSE(IsSnapshotWish(Encode(Request())));
  EXPECT_EQ(DecodeSnapshotWish(bytes).value(), SnapshotWish{258});
  ForEachDamage(bytes, [](const std::string& damaged) {
    EXPECT_EQ(DecodeSnapshotWish(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

}  // namespace
}  // namespace topicdb::replication
