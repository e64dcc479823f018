// Remembers the ids of appends that were stored. Whoever repeats an append is told so, and nothing
// is stored twice.
//
// A shard remembers its last kAppendIdsMax ids. The window is a number and not an age, so that no
// clock can shorten it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/thread/mutex.h"
#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

inline constexpr std::size_t kAppendIdsMax = 65'536;
inline constexpr std::size_t kAppendIdBytesMax = 255;

// A digest of the messages of an append in their order: topics, timestamps as they were given,
// values, and keys, since messages with other keys are stored in other shards.
// REQUIRES (DigestOf): keys.each, if given, has one for each message
using AppendDigest = std::array<std::uint8_t, 16>;
AppendDigest DigestOf(std::span<const MessageView> messages, const MessageKeys& keys = {});

// Returns kInvalidArgument if the id is empty or too long.
Status CheckAppendId(std::string_view id);

// An append that has an id. All shards of the append get the same.
struct AppendId {
  std::string id;
  AppendDigest digest{};
  std::uint64_t messages = 0;  // in all shards
};

// What a shard remembers of an append that it has stored.
struct KnownAppend {
  Serial serial;               // of its commit in this shard
  std::uint64_t messages = 0;  // in all shards
  AppendDigest digest{};
  bool operator==(const KnownAppend&) const = default;
};

// Returns kInvalidArgument, and names the id, if `known` is another append with the same id.
Status CheckSameAppend(const AppendId& append, const KnownAppend& known);

// Maps the ids of a shard to their appends. The shard's Committer owns it. Thread-safe. Lock rule:
// nobody takes another lock under mutex_.
class AppendIds {
 public:
  // Returns what is known of an append, or nothing if its id was never stored or is forgotten.
  std::optional<KnownAppend> Find(std::string_view id) const TOPICDB_EXCLUDES(mutex_);
  // Returns the serials of the ids that will be forgotten when `more` ids are added.
  std::vector<Serial> ForgottenAfter(std::size_t more) const TOPICDB_EXCLUDES(mutex_);
  // Adds an id, and forgets the oldest one if there are too many.
  // REQUIRES: its serial is greater than all others
  void Add(const std::string& id, const KnownAppend& known) TOPICDB_EXCLUDES(mutex_);
  // Knows what `other` knows, and nothing else. Empties `other`.
  void TakeAll(AppendIds* other) TOPICDB_EXCLUDES(mutex_);
  // Returns how many ids are known.
  std::size_t size() const TOPICDB_EXCLUDES(mutex_);

 private:
  using Known = std::unordered_map<std::string, KnownAppend>;

  mutable Mutex mutex_;
  Known known_ TOPICDB_GUARDED_BY(mutex_);
  std::deque<const Known::value_type*> by_serial_ TOPICDB_GUARDED_BY(mutex_);  // of known_
};

}  // namespace topicdb
