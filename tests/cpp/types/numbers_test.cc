#include "topicdb/types/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <unordered_set>

namespace topicdb {
namespace {

// True if neither number can be made of the other, compared with it or assigned to it.
template <typename One, typename Other>
constexpr bool kNeverMix =
    !std::is_constructible_v<One, Other> && !std::is_constructible_v<Other, One> &&
    !std::is_assignable_v<One&, Other> && !std::is_assignable_v<Other&, One> &&
    !requires(One one, Other other) { one == other; } &&
    !requires(One one, Other other) { one < other; };

// True if a plain number becomes a typed one, and a typed one becomes plain, only where the code
// says so.
template <typename Typed, typename Number>
constexpr bool kIsExplicit =
    std::is_constructible_v<Typed, Number> && !std::is_convertible_v<Number, Typed> &&
    !std::is_assignable_v<Typed&, Number> && !std::is_constructible_v<Number, Typed> &&
    !requires(Typed typed, Number number) { typed == number; } &&
    !requires(Typed typed, Number number) { typed + number; };

// True if a typed number can take the place of a plain one in memory.
template <typename Typed, typename Number>
constexpr bool kIsAsSmall = sizeof(Typed) == sizeof(Number) && alignof(Typed) == alignof(Number) &&
                            std::is_trivially_copyable_v<Typed>;

static_assert(kNeverMix<RetentionClassId, Generation>);
static_assert(kNeverMix<RetentionClassId, StreamId>);
static_assert(kNeverMix<RetentionClassId, BlockId>);
static_assert(kNeverMix<Generation, StreamId>);
static_assert(kNeverMix<Generation, BlockId>);
static_assert(kNeverMix<StreamId, BlockId>);
static_assert(kNeverMix<BlockId, Serial>);
static_assert(kNeverMix<StreamId, Serial>);
static_assert(kNeverMix<Generation, Serial>);
static_assert(kIsExplicit<RetentionClassId, std::uint32_t>);
static_assert(kIsExplicit<Generation, std::uint32_t>);
static_assert(kIsExplicit<StreamId, std::uint32_t>);
static_assert(kIsExplicit<BlockId, std::uint64_t>);
static_assert(kIsExplicit<Serial, std::uint64_t>);
static_assert(kIsAsSmall<RetentionClassId, std::uint32_t>);
static_assert(kIsAsSmall<Generation, std::uint32_t>);
static_assert(kIsAsSmall<StreamId, std::uint32_t>);
static_assert(kIsAsSmall<BlockId, std::uint64_t>);
static_assert(kIsAsSmall<Serial, std::uint64_t>);

TEST(TypedNumber, ComparesAsItsNumberDoes) {
  EXPECT_EQ(Generation{}.value(), 0U);
  EXPECT_EQ(Generation{7}, Generation{7});
  EXPECT_NE(Generation{7}, Generation{8});
  EXPECT_LT(Generation{7}, Generation{0xffffffff}) << "the numbers have no sign";
  EXPECT_GE(Generation{8}, Generation{8});
}

TEST(TypedNumber, CountsOn) {
  EXPECT_EQ(Generation{7}.Next(), Generation{8});
  EXPECT_EQ(Generation{7}.Next(3), Generation{10});
  Generation generation{7};
  EXPECT_EQ(++generation, Generation{8});
  EXPECT_EQ(generation, Generation{8});
}

TEST(TypedNumber, GoesBackAndMeasuresSteps) {
  EXPECT_EQ(Generation{7}.Previous(), Generation{6});
  EXPECT_EQ(Generation{7}.StepsFrom(Generation{7}), 0U);
  EXPECT_EQ(Generation{7}.StepsFrom(Generation{3}), 4U);
  EXPECT_EQ(Serial{5}.Next(kLastSerial.StepsFrom(Serial{5})), kLastSerial);
}

TEST(Serial, TheLastOneIsBehindAllOthersAndNoneBefore) {
  EXPECT_EQ(kNoSerial, Serial{0});
  EXPECT_GT(kLastSerial, Serial{0xffffffffffffff00});
  EXPECT_EQ(kLastSerial.Next(), kNoSerial) << "there is no larger one";
}

TEST(TypedNumber, IsAKeyOfAHashTable) {
  std::unordered_set<Generation> seen{Generation{1}, Generation{2}, Generation{1}};
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_TRUE(seen.contains(Generation{2}));
}

}  // namespace
}  // namespace topicdb
