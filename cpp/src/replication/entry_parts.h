// Entries that are larger than the log allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replication/entry.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// The largest entry that a log takes. The consensus has the same limit: see topicdb_raft_propose.
inline constexpr std::size_t kEntryBytesMax = std::size_t{1} << 20;

// Returns the entries that have the bytes of an encoded entry: itself if it is at most `bytes_max`
// long, otherwise its parts in their order. `entry` is what was encoded.
// REQUIRES: bytes_max is at least kPartBytesMin
inline constexpr std::size_t kPartBytesMin = 64;
std::vector<std::string> DivideEntry(const Entry& entry, std::string bytes,
                                     std::size_t bytes_max = kEntryBytesMax);

// Puts the parts of entries together, as they come out of a log. The parts of one entry are
// neighbours in the log, unless the leader was lost before all of them were there. Whoever applies
// the entries owns one. Not thread-safe.
class PartJoiner {
 public:
  // Takes the next entry of the log. Returns the bytes of a whole entry: this one, or the one whose
  // last part this is, which stays until the next call. Returns nothing while parts are missing.
  // Parts of an entry that another one interrupts are dropped. Returns what DecodeEntry returns for
  // a part that it refuses; a whole entry is not decoded, since its caller does that.
  Result<std::optional<std::string_view>> Add(std::string_view bytes);
  // Drops the parts of an entry that is not whole.
  void Reset();
  // Returns how many bytes of an entry that is not whole yet it has.
  std::size_t bytes() const { return next_ == 0 ? 0 : joined_.size(); }

 private:
  std::uint64_t epoch_ = 0;
  std::uint64_t number_ = 0;
  std::uint32_t next_ = 0;  // the part that must come; 0: none has come
  std::uint32_t parts_ = 0;
  std::string joined_;  // keeps some memory for the next entry
};

}  // namespace topicdb::replication
