// Decides in which shard each message of an append is stored, as the schema of the database says.
//
// Only what writes messages asks it. Whatever reads, deletes or follows goes to all shards: a
// message is also in a shard that its topic does not tell if the database shards by key, and if a
// transaction has written it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "topicdb/message.h"
#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"

namespace topicdb {

// Checks keys that are given with this many messages for the database at `path`. Returns kSchema if
// the database shards by topic, and kInvalidArgument if there are more or fewer keys than messages,
// or the key of all messages is empty. Does not look at the keys of single messages.
Status CheckKeys(const MessageKeys& keys, std::size_t messages, const Schema& schema,
                 const std::string& path);

// Knows the shards of the messages of one append. Whoever stores the append owns it, and keeps the
// keys alive as long as it. Immutable, so thread-safe.
class ShardChoice {
 public:
  // REQUIRES: CheckKeys has returned OK
  ShardChoice(const Schema& schema, const MessageKeys& keys)
      : shards_(schema.shards),
        keys_(keys),
        shard_of_all_(keys.all.has_value() ? ShardOfKey(*keys.all, shards_) : 0) {}

  // Returns the shard of message number `row`, which has this topic.
  std::uint32_t ShardOf(std::size_t row, std::string_view topic) const {
    if (keys_.all.has_value()) return shard_of_all_;
    return ShardOfKey(keys_.Of(row).value_or(topic), shards_);
  }
  // Returns a name of the message for errors: "topic 'a'", or "topic 'a' with the key 'b'".
  std::string Describe(std::size_t row, std::string_view topic) const;

 private:
  const std::uint32_t shards_;
  const MessageKeys keys_;
  const std::uint32_t shard_of_all_;  // if all messages have one key
};

}  // namespace topicdb
