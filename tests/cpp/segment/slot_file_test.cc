#include "segment/slot_file.h"

#include <gtest/gtest.h>

#include "base/file/files.h"
#include "fsyncs.h"
#include "test_directory.h"

namespace topicdb {
namespace {

constexpr SlotMagic kMagic = "TESTSLOT";

TEST(SlotFile, KeepsWhatWasWrittenLast) {
  const TestDirectory directory;
  const std::string path = directory / "slots";
  {
    const auto slots = SlotFile::Create(path, kMagic, "first").value();
    ASSERT_TRUE(slots->Write("second", false).ok());
    ASSERT_TRUE(slots->Write("third", true).ok());
    EXPECT_EQ(slots->content(), "third");
  }
  const auto slots = SlotFile::Open(path, kMagic).value();
  EXPECT_EQ(slots->content(), "third");
  EXPECT_FALSE(slots->damaged());
  EXPECT_EQ(SlotFile::Open(path, "OTHERONE").status().code(), Code::kCorruption);
}

TEST(SlotFile, GrowsWithItsContent) {
  const TestDirectory directory;
  const std::string path = directory / "slots";
  const std::string large(5'000, 'x');
  {
    const auto slots = SlotFile::Create(path, kMagic, "small").value();
    ASSERT_TRUE(slots->Write(large, false).ok());
    ASSERT_TRUE(slots->Write(large + "y", false).ok());
  }
  EXPECT_EQ(SlotFile::Open(path, kMagic).value()->content(), large + "y");
}

// The file has another name, but the directory could not be synced.
TEST(SlotFile, AfterAReplacementThatFailedItIsReplacedAgain) {
  const TestDirectory directory;
  const std::string path = directory / "slots";
  const auto slots = SlotFile::Create(path, kMagic, "small").value();
  const std::string missing = directory / "missing";
  fsync_needs = missing.c_str();
  EXPECT_EQ(slots->Write(std::string(5'000, 'x'), true).code(), Code::kStorage);
  EXPECT_EQ(slots->content(), "small");
  EXPECT_EQ(slots->Write("other", true).code(), Code::kStorage) << "the name is still not safe";
  fsync_needs = nullptr;
  ASSERT_TRUE(slots->Write("newer", true).ok());
  EXPECT_EQ(SlotFile::Open(path, kMagic).value()->content(), "newer");
  ASSERT_TRUE(slots->Write("newest", true).ok());
  EXPECT_EQ(SlotFile::Open(path, kMagic).value()->content(), "newest");
}

TEST(SlotFile, WithOneSlotDamagedTheOtherIsUsedAndItIsTold) {
  const TestDirectory directory;
  const std::string path = directory / "slots";
  {
    const auto slots = SlotFile::Create(path, kMagic, "older").value();
    ASSERT_TRUE(slots->Write("newer", false).ok());
  }
  const std::string whole = ReadFile(path, 100'000).value();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ASSERT_TRUE(WriteFileAtomically(path, damaged).ok());
    const auto slots = SlotFile::Open(path, kMagic);
    ASSERT_TRUE(slots.ok()) << at;
    EXPECT_TRUE((*slots)->damaged()) << at;
    EXPECT_TRUE((*slots)->content() == "newer" || (*slots)->content() == "older") << at;
  }
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    ASSERT_TRUE(WriteFileAtomically(path, std::string_view(whole).substr(0, size)).ok());
    const auto slots = SlotFile::Open(path, kMagic);
    EXPECT_TRUE(!slots.ok() || (*slots)->damaged()) << size;
  }
}

}  // namespace
}  // namespace topicdb
