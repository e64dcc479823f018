#include "store/shard/state/disk_usage.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

std::string RandomValue() {
  std::mt19937_64 random(3);
  std::string value(kBytes, '\0');
  for (char& byte : value) byte = static_cast<char>(random());  // cannot be compressed
  return value;
}

TEST(DiskUsage, MeasuresWhatIsInFilesAndWhatWillBe) {
  ShardParts shard;
  const std::uint64_t before = shard.disk.Measure();
  EXPECT_LT(before, kBytes / 2) << "empty memory tables take no room in files";
  shard.Append({{"a", 1, RandomValue()}});
  const std::uint64_t in_memory = shard.disk.Measure();
  EXPECT_GE(in_memory, before + kBytes);
  EXPECT_LT(in_memory, before + 2 * kBytes);
  ASSERT_TRUE(shard.state.Flush().ok());
  const std::uint64_t in_files = shard.disk.Measure();
  EXPECT_GE(in_files, before + kBytes);
  EXPECT_LT(in_files, before + 2 * kBytes);
  EXPECT_GE(shard.disk.OfFamily(shard.Current().families().main), kBytes);
}

TEST(DiskUsage, MeasuringForgetsWhatItWasToldOf) {
  ShardParts shard;
  shard.disk.Expire();
  const std::uint64_t measured = shard.disk.Bytes();
  EXPECT_EQ(measured, shard.disk.Measure());
  shard.disk.NoteWritten(kBytes);
  shard.disk.Expire();
  EXPECT_EQ(shard.disk.Bytes(), measured) << "nothing was really written";
}

TEST(DiskUsage, OfADroppedSlabNothingCounts) {
  ShardParts shard;
  shard.Append({{"a", 1, RandomValue()}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  EXPECT_GE(shard.disk.Bytes(), kBytes);
  ASSERT_TRUE(shard.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  EXPECT_LT(shard.disk.Bytes(), kBytes / 2) << "it measures again, however lately it did";
}

}  // namespace
}  // namespace topicdb
