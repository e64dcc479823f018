#include "store/catalog/maintenance.h"

#include <gtest/gtest.h>

#include <chrono>

namespace topicdb {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{1s};

constexpr WallTime At(std::int64_t microseconds) { return TimeAt<WallTime>(microseconds); }

SlabUsage Current(WallTime created_at, std::uint64_t disk_bytes, std::uint64_t messages) {
  SlabUsage usage;
  usage.slab.created_at = created_at;
  usage.slab.messages = messages;
  usage.disk_bytes = disk_bytes;
  return usage;
}

SlabUsage Sealed(std::uint32_t retention_class, std::uint32_t generation, WallTime sealed_at,
                 std::uint64_t disk_bytes) {
  SlabUsage usage;
  usage.slab.id = {0, RetentionClassId{retention_class}, Generation{generation}};
  usage.slab.read_only = true;
  usage.slab.sealed_at = sealed_at;
  usage.disk_bytes = disk_bytes;
  return usage;
}

std::vector<std::pair<std::uint32_t, SlabDropReason>> Chosen(const RetentionRules& rules,
                                                             std::vector<SlabUsage> slabs,
                                                             const MaintenanceLimits& all = {}) {
  std::uint64_t disk_bytes = 0;
  for (const SlabUsage& usage : slabs) disk_bytes += usage.disk_bytes;
  std::vector<std::pair<std::uint32_t, SlabDropReason>> chosen;
  for (const DroppedSlab& slab : ChooseDropped(rules, std::move(slabs), all, disk_bytes, kNow)) {
    chosen.emplace_back(slab.usage.slab.id.generation.value(), slab.reason);
  }
  return chosen;
}

TEST(Maintenance, AGenerationHasAnEighthOfTheAgeOfItsClass) {
  EXPECT_EQ(RotationPeriod({"#", 80us}), 10us);
  EXPECT_EQ(RotationPeriod({"#", 3us}), 1us);
  EXPECT_EQ(RotationPeriod({"#", 80us, 0, 7us}), 7us);
  EXPECT_EQ(RotationPeriod({"#", 0us, 0, 7us}), 7us);
  EXPECT_EQ(RotationPeriod({"#", 0us, 1'000}), 0us);
}

TEST(Maintenance, RotationIsDueByTimeOrByBytes) {
  const RetentionClass aged{"#", 80us};
  EXPECT_FALSE(IsRotationDue(aged, Current(kNow - 9us, 0, 1), {}, kNow));
  EXPECT_TRUE(IsRotationDue(aged, Current(kNow - 10us, 0, 1), {}, kNow));
  EXPECT_FALSE(IsRotationDue(aged, Current(kNow - 10us, 1'000, 0), {}, kNow));  // no messages
  EXPECT_FALSE(IsRotationDue(aged, Current(kNow + 50us, 0, 1), {}, kNow));  // the clock went back
  const RetentionClass sized{"#", 0us, 1'600};
  MaintenanceLimits two_shards;
  two_shards.shards = 2;
  EXPECT_FALSE(IsRotationDue(sized, Current(At(0), 99, 1), two_shards, kNow));
  EXPECT_TRUE(IsRotationDue(sized, Current(At(0), 100, 1), two_shards, kNow));
  const RetentionClass kept{"#"};
  EXPECT_FALSE(IsRotationDue(kept, Current(At(0), 1'000'000, 1), {}, kNow));
  EXPECT_TRUE(IsRotationDue(kept, Current(At(0), 90, 1), {800, 0.9}, kNow));
  EXPECT_FALSE(IsRotationDue(kept, Current(At(0), 89, 1), {800, 0.9}, kNow));
  EXPECT_FALSE(IsRotationDue(kept, Current(At(0), 800, 1), {800, 0}, kNow));
}

TEST(Maintenance, WhatIsOlderThanItsClassKeepsGoes) {
  const RetentionRules rules = RetentionRules::Make({{"a", 100us}, {"b", 0us}}).value();
  EXPECT_EQ(Chosen(rules, {Sealed(0, 1, kNow - 100us, 1), Sealed(0, 2, kNow - 99us, 1),
                           Sealed(1, 3, At(0), 1), Sealed(2, 4, At(0), 1), Sealed(3, 5, At(0), 1)}),
            (std::vector{std::pair(1U, SlabDropReason::kAge)}));
}

TEST(Maintenance, TheOldestOfAClassWithTooManyBytesGo) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us, 100}}).value();
  const std::vector<SlabUsage> slabs{Sealed(0, 3, At(30), 50), Sealed(0, 1, At(10), 50),
                                     Sealed(0, 2, At(20), 50), Sealed(1, 9, At(1), 500)};
  EXPECT_EQ(Chosen(rules, slabs), (std::vector{std::pair(1U, SlabDropReason::kBytes)}));
  MaintenanceLimits half;
  half.shards = 2;  // this handle has one of them open
  EXPECT_EQ(Chosen(rules, slabs, half), (std::vector{std::pair(1U, SlabDropReason::kBytes),
                                                     std::pair(2U, SlabDropReason::kBytes)}));
}

TEST(Maintenance, WhatARunWouldDoIsForeseen) {
  const RetentionRules rules =
      RetentionRules::Make({{"a", 0us, 100}, {"b", 0us, 0, 0us, 3}}).value();
  SlabUsage current = Current(At(0), 1'000, 5);
  current.slab.id.generation = Generation{7};
  SlabUsage other = Current(At(0), 1'000, 5);
  other.slab.id = {0, RetentionClassId{2}, Generation{1}};  // no rule drops it
  MaintenanceLimits all;
  all.quota_bytes = 1;  // Foresee ignores it
  all.quota_trim = 0.9;
  const Maintenance foreseen = Foresee(
      rules, {current, other, Sealed(0, 1, At(10), 50), Sealed(1, 2, At(10), 50)}, all, kNow);
  EXPECT_EQ(foreseen.rotated, 1U);
  std::vector<std::pair<std::uint32_t, SlabDropReason>> dropped;
  for (const DroppedSlab& slab : foreseen.dropped) {
    dropped.emplace_back(slab.usage.slab.id.generation.value(), slab.reason);
  }
  EXPECT_EQ(dropped, (std::vector{std::pair(2U, SlabDropReason::kKeepLast),
                                  std::pair(1U, SlabDropReason::kBytes),
                                  std::pair(7U, SlabDropReason::kBytes)}));
  EXPECT_TRUE(Foresee(rules, {other}, all, kNow).dropped.empty());
}

TEST(Maintenance, WhatIsWrittenToCountsAndStays) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us, 100}}).value();
  SlabUsage current = Current(At(0), 1'000, 1);
  current.slab.id.generation = Generation{7};
  EXPECT_EQ(Chosen(rules, {current, Sealed(0, 1, At(10), 50)}),
            (std::vector{std::pair(1U, SlabDropReason::kBytes)}));
}

TEST(Maintenance, BeyondTheQuotaTheOldestOfAllGo) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us}, {"b", 0us}}).value();
  // Generation 4 is of the class of maps, which no quota drops.
  const std::vector<SlabUsage> slabs{Sealed(0, 1, At(30), 50), Sealed(1, 2, At(10), 50),
                                     Sealed(2, 3, At(20), 50), Sealed(3, 4, At(1), 50)};
  EXPECT_EQ(Chosen(rules, slabs, {200, 0.9}), (std::vector{std::pair(2U, SlabDropReason::kQuota)}));
  EXPECT_EQ(Chosen(rules, slabs, {100, 1}), (std::vector{std::pair(2U, SlabDropReason::kQuota),
                                                         std::pair(3U, SlabDropReason::kQuota)}));
  EXPECT_TRUE(Chosen(rules, slabs, {100, 0}).empty());
  EXPECT_TRUE(Chosen(rules, slabs, {300, 0.9}).empty());
}

TEST(Maintenance, WhatGoesForAQuotaIsForeseen) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us}, {"b", 0us, 60}}).value();
  SlabUsage current = Current(At(0), 100, 5);  // more than an eighth of the quota, so it ends
  current.slab.id.generation = Generation{7};
  const std::vector<SlabUsage> slabs{current, Sealed(0, 1, At(10), 50), Sealed(1, 2, At(20), 50),
                                     Sealed(1, 3, At(30), 50)};
  const auto foreseen = [&](std::uint64_t quota_bytes, double trim) {
    std::vector<std::uint32_t> generations;
    for (const DroppedSlab& slab : ForeseeQuota(rules, slabs, {quota_bytes, trim}, 250, kNow)) {
      EXPECT_EQ(slab.reason, SlabDropReason::kQuota);
      generations.push_back(slab.usage.slab.id.generation.value());
    }
    return generations;
  };
  EXPECT_EQ(foreseen(200, 1), (std::vector<std::uint32_t>{})) << "generation 2 goes for its class";
  EXPECT_EQ(foreseen(150, 1), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(foreseen(100, 1), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(foreseen(50, 1), (std::vector<std::uint32_t>{1, 3, 7}));
  EXPECT_TRUE(foreseen(50, 0).empty());
  EXPECT_TRUE(foreseen(0, 1).empty());
}

TEST(Maintenance, NothingIsDroppedForWhatGoesByItself) {
  const RetentionRules rules = RetentionRules::Make({{"#", 0us, 1'000}}).value();
  SlabUsage sealed = Sealed(0, 1, At(10), 900);
  SlabUsage current = Current(At(20), 1'900, 1);
  current.slab.id = {0, RetentionClassId{0}, Generation{2}};
  current.garbage_bytes = 1'800;
  EXPECT_TRUE(Chosen(rules, {sealed, current}).empty());
  MaintenanceLimits all;
  all.quota_bytes = 1'100;
  all.quota_trim = 1;
  EXPECT_TRUE(Chosen(rules, {sealed, current}, all).empty());
  current.garbage_bytes = 1'700;
  EXPECT_EQ(Chosen(rules, {sealed, current}).size(), 1U);
}

SlabUsage Kept(std::uint32_t generation, WallTime sealed_at, std::uint64_t disk_bytes) {
  SlabUsage usage = Sealed(0, generation, sealed_at, disk_bytes);
  usage.slab.keep_last = 1;
  return usage;
}

TEST(Maintenance, WhatKeepLastHasKeptDoesNotGoByAgeOrBytes) {
  const RetentionRules aged = RetentionRules::Make({{"a", 100us, 0, 0us, 1}}).value();
  EXPECT_EQ(Chosen(aged, {Kept(1, At(1), 1), Sealed(0, 2, kNow - 100us, 1), Sealed(0, 4, kNow, 1)}),
            (std::vector{std::pair(2U, SlabDropReason::kAge)}));
  const RetentionRules sized = RetentionRules::Make({{"a", 0us, 100, 0us, 1}}).value();
  EXPECT_EQ(
      Chosen(sized, {Kept(1, At(1), 90), Sealed(0, 2, At(2), 20), Sealed(0, 4, At(3), 20)}),
      (std::vector{std::pair(2U, SlabDropReason::kBytes), std::pair(4U, SlabDropReason::kBytes)}));
  const RetentionRules no_more = RetentionRules::Make({{"a", 100us}}).value();
  EXPECT_EQ(Chosen(no_more, {Kept(1, At(1), 1)}),
            (std::vector{std::pair(1U, SlabDropReason::kAge)}));
}

TEST(Maintenance, WithoutAnotherLimitAllElseGoesOnceItIsNotWrittenTo) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us, 0, 0us, 1}}).value();
  SlabUsage current = Current(kNow, 1, 1);
  current.slab.id.generation = Generation{4};
  EXPECT_EQ(Chosen(rules, {Kept(1, At(1), 1), Sealed(0, 2, kNow, 1), current}),
            (std::vector{std::pair(2U, SlabDropReason::kKeepLast)}));
  EXPECT_EQ(RotationPeriod(rules.live().front().limits), kKeepLastRotationPeriod);
}

TEST(Maintenance, TheQuotaTakesWhatIsKeptAtLast) {
  const RetentionRules rules = RetentionRules::Make({{"a", 0us, 0, 0us, 1}, {"b"}}).value();
  EXPECT_EQ(Chosen(rules, {Kept(1, At(1), 50), Sealed(1, 2, At(9), 50)}, {60, 0.9}),
            (std::vector{std::pair(2U, SlabDropReason::kQuota)}));
  EXPECT_EQ(
      Chosen(rules, {Kept(1, At(1), 50), Sealed(1, 2, At(9), 50)}, {40, 0.9}),
      (std::vector{std::pair(2U, SlabDropReason::kQuota), std::pair(1U, SlabDropReason::kQuota)}));
}

// Returns the merges that are planned, as the numbers of generations (from, to). All generations
// are too old, except results of earlier merges. Sets `gone` to those that are dropped.
std::vector<std::pair<std::vector<std::uint32_t>, std::uint32_t>> Merges(
    const RetentionRules& rules, std::vector<SlabUsage> slabs, const SlabUsage& current,
    std::vector<std::uint32_t>* gone) {
  std::vector<DroppedSlab> dropped;
  for (const SlabUsage& usage : slabs) {
    if (usage.slab.keep_last == 0) dropped.push_back({usage, SlabDropReason::kAge});
  }
  slabs.push_back(current);
  std::vector<std::pair<std::vector<std::uint32_t>, std::uint32_t>> merges;
  for (const KeepLastMerge& merge : PlanMerges(rules, slabs, &dropped)) {
    EXPECT_EQ(merge.keep_last, 3U);
    auto& [from, to] = merges.emplace_back();
    for (const SlabId& id : merge.from) from.push_back(id.generation.value());
    to = merge.to.generation.value();
  }
  gone->clear();
  for (const DroppedSlab& item : dropped) gone->push_back(item.usage.slab.id.generation.value());
  return merges;
}

TEST(Maintenance, MergedSlabsGoToANumberBehindThem) {
  const RetentionRules rules = RetentionRules::Make({{"a", 1us, 0, 0us, 3}}).value();
  SlabUsage current = Current(At(0), 0, 1);
  current.slab.id.generation = Generation{6};
  using Numbers = std::vector<std::uint32_t>;
  using Expected = std::vector<std::pair<Numbers, std::uint32_t>>;
  Numbers gone;
  EXPECT_EQ(Merges(rules, {Sealed(0, 2, At(1), 1), Sealed(0, 4, At(2), 1)}, current, &gone),
            (Expected{{{2, 4}, 5}}));
  EXPECT_EQ(gone, (Numbers{2, 4}));
  EXPECT_EQ(Merges(rules, {Kept(3, At(1), 1), Sealed(0, 4, At(2), 1)}, current, &gone),
            (Expected{{{3, 4}, 5}}));
  EXPECT_EQ(gone, (Numbers{4}));
  EXPECT_TRUE(Merges(rules, {Kept(3, At(1), 1)}, current, &gone).empty());
  // There is no number between 5 and 6, so generation 5 waits.
  EXPECT_EQ(Merges(rules, {Sealed(0, 1, At(1), 1), Sealed(0, 3, At(2), 1), Sealed(0, 5, At(3), 1)},
                   current, &gone),
            (Expected{{{1, 3}, 4}}));
  EXPECT_EQ(gone, (Numbers{1, 3}));
  EXPECT_TRUE(Merges(rules, {Sealed(0, 5, At(3), 1)}, current, &gone).empty());
  EXPECT_TRUE(gone.empty());
  // Of a class without keep_last, all generations go.
  EXPECT_TRUE(Merges(rules, {Sealed(1, 2, At(1), 1)}, current, &gone).empty());
  EXPECT_EQ(gone, (Numbers{2}));
}

TEST(Maintenance, WhatIsMergedIsNotDroppedForTheQuotaToo) {
  const RetentionRules rules = RetentionRules::Make({{"a", 1us, 0, 0us, 3}}).value();
  const std::vector<SlabUsage> slabs{Kept(1, At(1), 1), Sealed(0, 2, At(2), 1)};
  std::vector<DroppedSlab> dropped{{slabs[1], SlabDropReason::kAge},
                                   {slabs[0], SlabDropReason::kQuota}};
  EXPECT_EQ(PlanMerges(rules, slabs, &dropped).size(), 1U);
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped.front().reason, SlabDropReason::kAge);
  dropped = {{slabs[0], SlabDropReason::kQuota}};
  EXPECT_TRUE(PlanMerges(rules, slabs, &dropped).empty());
  EXPECT_EQ(dropped.size(), 1U);
}

TEST(Maintenance, WhereClocksContradictTheOrderOfGenerationsTells) {
  const RetentionRules rules = RetentionRules::Make({{"a", 80us}, {"#", 80us}}).value();
  constexpr WallTime kWrong = kNow + 1'000s;
  SlabUsage current = Current(kNow - 10us, 0, 1);
  current.slab.id = {0, RetentionClassId{0}, Generation{4}};
  using Outcome = std::vector<std::pair<std::uint32_t, SlabDropReason>>;
  // Generation 2 ended in the future, so it counts as ended when the next generation did.
  EXPECT_EQ(
      Chosen(rules, {Sealed(0, 1, kNow - 200us, 1), Sealed(0, 2, kWrong, 1),
                     Sealed(0, 3, kNow - 90us, 1), current}),
      (Outcome{{1, SlabDropReason::kAge}, {2, SlabDropReason::kAge}, {3, SlabDropReason::kAge}}));
  EXPECT_EQ(Chosen(rules, {Sealed(0, 2, kWrong, 1), Sealed(0, 3, kNow - 70us, 1), current}),
            Outcome{});
  // Generations of other classes tell nothing.
  EXPECT_EQ(Chosen(rules, {Sealed(0, 2, kWrong, 1), Sealed(1, 3, kNow - 90us, 1)}),
            (Outcome{{3, SlabDropReason::kAge}}));
}

TEST(Maintenance, AGenerationThatBeganInTheFutureEnds) {
  EXPECT_FALSE(HasImpossibleBegin(Current(kNow, 0, 1), kNow));
  EXPECT_FALSE(HasImpossibleBegin(Current(kNow + 50us, 0, 1), kNow));  // clocks are adjusted
  EXPECT_TRUE(HasImpossibleBegin(Current(kNow + 1h, 0, 1), kNow));
  EXPECT_TRUE(HasImpossibleBegin(Current(kNow + 1h, 0, 0), kNow));
}

TEST(Maintenance, NothingGoesByAgeWhileItIsTooEarlyToTell) {
  const RetentionRules rules = RetentionRules::Make({{"#", 80us, 1}}).value();
  MaintenanceLimits early;
  early.may_age = false;
  using Outcome = std::vector<std::pair<std::uint32_t, SlabDropReason>>;
  EXPECT_EQ(Chosen(rules, {Sealed(0, 1, kNow - 200us, 1)}, early), Outcome{});
  EXPECT_EQ(Chosen(rules, {Sealed(0, 1, kNow - 200us, 9)}, early),
            (Outcome{{1, SlabDropReason::kBytes}}));
}

}  // namespace
}  // namespace topicdb
