// Numbers that name something in a database. Each kind has a type of its own, so that the compiler
// refuses to take one for another.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace topicdb {

// A number of one kind, zero if none is given. No conversion is implicit: code makes the number of
// a plain one with braces, and takes the plain one out with value(). Encoders call value(), so the
// bytes on disk do not depend on this class. `Tag` tells the kinds apart and is never defined.
template <typename Tag, typename Number>
class TypedNumber {
 public:
  constexpr TypedNumber() = default;
  constexpr explicit TypedNumber(Number value) : value_(value) {}

  constexpr Number value() const { return value_; }
  // Returns the number that comes `steps` numbers behind this one.
  constexpr TypedNumber Next(Number steps = 1) const { return TypedNumber(value_ + steps); }
  // Returns the number that comes right before this one. REQUIRES: this is not zero
  constexpr TypedNumber Previous() const { return TypedNumber(value_ - 1); }
  // Returns how many steps lead from `other` to this number: other.Next(steps) is this number.
  constexpr Number StepsFrom(TypedNumber other) const { return value_ - other.value_; }
  constexpr TypedNumber& operator++() {
    ++value_;
    return *this;
  }

  auto operator<=>(const TypedNumber&) const = default;

 private:
  Number value_ = 0;
};

// The number of a retention class: an index into the classes of the database. It is in the names of
// the class's slabs and never changes.
using RetentionClassId = TypedNumber<struct RetentionClassIdTag, std::uint32_t>;

// The number of a generation of a class. A class counts them from 1.
using Generation = TypedNumber<struct GenerationTag, std::uint32_t>;

// The number of a stream in its slab. It is never reused, and later streams have larger ones.
using StreamId = TypedNumber<struct StreamIdTag, std::uint32_t>;
inline constexpr StreamId kNoStream;

// The number of a block in its slab. A slab counts its blocks from 1, and the numbers of fresh
// blocks grow in the order of commits.
using BlockId = TypedNumber<struct BlockIdTag, std::uint64_t>;
inline constexpr BlockId kNoBlock;

// The number of a commit in its shard. A shard counts its commits from 1; zero means none.
using Serial = TypedNumber<struct SerialTag, std::uint64_t>;
inline constexpr Serial kNoSerial;
// The largest number there can be. As an upper bound it leaves out no commit.
inline constexpr Serial kLastSerial{std::numeric_limits<std::uint64_t>::max()};

// The commits from `first` to `last`, including both.
struct SerialRange {
  Serial first;
  Serial last;
  auto operator<=>(const SerialRange&) const = default;
};

static_assert(std::is_trivially_copyable_v<RetentionClassId>);
static_assert(sizeof(RetentionClassId) == sizeof(std::uint32_t));
static_assert(std::is_trivially_copyable_v<Generation>);
static_assert(sizeof(Generation) == sizeof(std::uint32_t));
static_assert(std::is_trivially_copyable_v<StreamId>);
static_assert(sizeof(StreamId) == sizeof(std::uint32_t));
static_assert(std::is_trivially_copyable_v<BlockId>);
static_assert(sizeof(BlockId) == sizeof(std::uint64_t));
static_assert(std::is_trivially_copyable_v<Serial>);
static_assert(sizeof(Serial) == sizeof(std::uint64_t));

}  // namespace topicdb

template <typename Tag, typename Number>
struct std::hash<topicdb::TypedNumber<Tag, Number>> {
  std::size_t operator()(topicdb::TypedNumber<Tag, Number> number) const noexcept {
    return std::hash<Number>()(number.value());
  }
};
