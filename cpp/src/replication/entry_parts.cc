#include "replication/entry_parts.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace topicdb::replication {

namespace {

constexpr std::size_t kReservedBytesMax = std::size_t{64} << 20;
// Memory that is not touched again is cheaper than new one, which the kernel has to clear.
constexpr std::size_t kKeptBytesMax = std::size_t{4} << 20;

}  // namespace

std::vector<std::string> DivideEntry(const Entry& entry, std::string bytes, std::size_t bytes_max) {
  std::vector<std::string> divided;
  if (bytes.size() <= bytes_max) {
    divided.push_back(std::move(bytes));
    return divided;
  }
  Entry part;
  part.kind = EntryKind::kPart;
  part.epoch = entry.epoch;
  part.number = entry.number;
  const std::size_t body_bytes = bytes_max - Encode(part).size();
  part.parts = static_cast<std::uint32_t>((bytes.size() + body_bytes - 1) / body_bytes);
  const std::string_view whole = bytes;
  for (; part.part < part.parts; ++part.part) {
    part.body = whole.substr(part.part * body_bytes, body_bytes);
    divided.push_back(Encode(part));
  }
  return divided;
}

Result<std::optional<std::string_view>> PartJoiner::Add(std::string_view bytes) {
  if (!IsPart(bytes)) {
    Reset();
    return std::optional(bytes);
  }
  TOPICDB_ASSIGN_OR_RETURN(const Entry entry, DecodeEntry(bytes));
  const bool continues = next_ != 0 && entry.part == next_ && entry.parts == parts_ &&
                         entry.epoch == epoch_ && entry.number == number_;
  if (!continues) {
    Reset();
    if (entry.part != 0) return std::optional<std::string_view>();  // its first parts are not there
    epoch_ = entry.epoch;
    number_ = entry.number;
    parts_ = entry.parts;
    // All parts but the last one have the same size.
    joined_.reserve(std::min(entry.body.size() * entry.parts, kReservedBytesMax));
  }
  joined_ += entry.body;
  next_ = entry.part + 1;
  if (next_ < parts_) return std::optional<std::string_view>();
  next_ = 0;
  return std::optional<std::string_view>(joined_);
}

void PartJoiner::Reset() {
  next_ = 0;
  if (joined_.capacity() > kKeptBytesMax) joined_ = {};
  joined_.clear();
}

}  // namespace topicdb::replication
