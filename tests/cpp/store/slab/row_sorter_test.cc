#include "store/slab/row_sorter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace topicdb {
namespace {

// What a sorter has handed out.
struct Taken {
  std::string topic;
  std::int64_t timestamp;
  Serial serial;
  std::uint32_t index;
  std::string value;
  bool operator==(const Taken&) const = default;
};

RowSorter::Take Into(std::vector<Taken>* taken) {
  return [taken](const SalvagedRow& row) {
    taken->push_back(
        {std::string(row.topic), row.timestamp, row.serial, row.index, std::string(row.value)});
    return Status::Ok();
  };
}

TEST(RowSorter, HandsOutMessagesInTheOrderOfCommits) {
  std::vector<Taken> taken;
  RowSorter sorter(Into(&taken));
  ASSERT_TRUE(sorter.Add({"b", 5, Serial{9}, 0, "last"}).ok());
  ASSERT_TRUE(sorter.Add({"a/long", 7, Serial{3}, 2, ""}).ok());
  ASSERT_TRUE(sorter.Add({"a", 6, Serial{3}, 1, "first"}).ok());
  EXPECT_TRUE(taken.empty()) << "there is room for more";
  ASSERT_TRUE(sorter.Finish().ok());
  const std::vector<Taken> expected{{"a", 6, Serial{3}, 1, "first"},
                                    {"a/long", 7, Serial{3}, 2, ""},
                                    {"b", 5, Serial{9}, 0, "last"}};
  EXPECT_EQ(taken, expected);
  ASSERT_TRUE(sorter.Finish().ok());
  EXPECT_EQ(taken.size(), 3U) << "each once";
}

TEST(RowSorter, MoreThanItsMemoryHoldsComesInRuns) {
  constexpr std::uint64_t kCount = 1'000;
  constexpr std::size_t kBytesMax = 4'096;
  std::mt19937 random(7);
  std::vector<std::uint64_t> serials(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) serials[i] = i + 1;
  std::shuffle(serials.begin(), serials.end(), random);
  std::vector<Taken> taken;
  RowSorter sorter(Into(&taken), kBytesMax);
  for (const std::uint64_t serial : serials) {
    const std::string value = std::to_string(serial);
    ASSERT_TRUE(sorter.Add({"topic", 1, Serial{serial}, 0, value}).ok());
  }
  ASSERT_TRUE(sorter.Finish().ok());
  ASSERT_EQ(taken.size(), kCount);
  std::size_t runs = 1;
  for (std::size_t i = 1; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].value, std::to_string(taken[i].serial.value()));
    runs += taken[i].serial < taken[i - 1].serial ? 1 : 0;
  }
  EXPECT_GT(runs, 1U);
  EXPECT_LT(runs, kCount / 20) << "a run has as many messages as the memory holds";
}

TEST(RowSorter, AnErrorOfTheTakerIsReturned) {
  RowSorter sorter([](const SalvagedRow&) { return StorageFault("the disk is full"); });
  ASSERT_TRUE(sorter.Add({"a", 1, Serial{1}, 0, "x"}).ok());
  EXPECT_EQ(sorter.Finish().code(), Code::kStorage);
}

}  // namespace
}  // namespace topicdb
