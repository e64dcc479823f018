#include "commit/shard_choice.h"

namespace topicdb {

Status CheckKeys(const MessageKeys& keys, std::size_t messages, const Schema& schema,
                 const std::string& path) {
  if (!keys.given()) return Status::Ok();
  if (schema.shard_by != ShardBy::kKey) {
    return SchemaFault("key: " + path +
                       " is sharded by topic, and its messages have no keys: leave the keys out, "
                       "or store in a database that was created with shard_by='key'");
  }
  TOPICDB_RETURN_IF_ERROR(keys.CheckCount(messages));
  return CheckKey(keys.all);
}

Status MessageKeys::CheckCount(std::size_t messages) const {
  if (!each.has_value() || each->size() == messages) return Status::Ok();
  return InvalidArgument("key: expected one for each message (" + std::to_string(messages) +
                         "), or one key for all of them; got a list of " +
                         std::to_string(each->size()));
}

Status CheckKey(std::optional<std::string_view> key) {
  if (!key.has_value() || !key->empty()) return Status::Ok();
  return InvalidArgument("key: it is empty; None is for a message without a key");
}

std::string ShardChoice::Describe(std::size_t row, std::string_view topic) const {
  constexpr std::size_t kShownBytesMax = 80;
  std::string text = "topic '" + std::string(topic) + "'";
  const std::optional<std::string_view> key = keys_.Of(row);
  if (!key.has_value()) return text;
  text += " with the key '";
  text += key->substr(0, kShownBytesMax);
  return text + (key->size() > kShownBytesMax ? "…'" : "'");
}

}  // namespace topicdb
