// Ids of appends that were stored: who repeats one is told so, and nothing is stored twice.
//
// A window over the last ones of a shard: an id is forgotten when kAppendIdsMax others came after
// it. That is a number and no age, so that no clock can shorten it.
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

namespace topicdb {

inline constexpr std::size_t kAppendIdsMax = 65'536;
inline constexpr std::size_t kAppendIdBytesMax = 255;

// Of the messages of an append, in their order: topics, timestamps as they were given, values.
using AppendDigest = std::array<std::uint8_t, 16>;
AppendDigest DigestOf(std::span<const MessageView> messages);

// kInvalidArgument: it is empty or too long.
Status CheckAppendId(std::string_view id);

// An append that has an id. The same in all of its shards.
struct AppendId {
  std::string id;
  AppendDigest digest{};
  std::uint64_t messages = 0;  // in all shards
};

// What a shard knows of an append that it has stored.
struct KnownAppend {
  std::uint64_t serial = 0;
  std::uint64_t messages = 0;  // of it, in all shards
  AppendDigest digest{};
  bool operator==(const KnownAppend&) const = default;
};

// kInvalidArgument, which names the id, if what is known of it is another append.
Status CheckSameAppend(const AppendId& append, const KnownAppend& known);

// Thread-safe; its lock is taken last.
class AppendIds {
 public:
  std::optional<KnownAppend> Find(std::string_view id) const TOPICDB_EXCLUDES(mutex_);
  // Serials of the oldest ones that are forgotten when so many come; at most all there are.
  std::vector<std::uint64_t> ForgottenAfter(std::size_t more) const TOPICDB_EXCLUDES(mutex_);
  // Its serial is the greatest. Forgets the oldest if there are too many.
  void Add(const std::string& id, const KnownAppend& known) TOPICDB_EXCLUDES(mutex_);
  std::size_t size() const TOPICDB_EXCLUDES(mutex_);

 private:
  using Known = std::unordered_map<std::string, KnownAppend>;

  mutable Mutex mutex_;
  Known known_ TOPICDB_GUARDED_BY(mutex_);
  std::deque<const Known::value_type*> by_serial_ TOPICDB_GUARDED_BY(mutex_);  // of known_
};

}  // namespace topicdb
