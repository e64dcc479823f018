#include "commit/append_ids.h"

#include <algorithm>
#include <cassert>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"

namespace topicdb {

namespace {

// docs/internals/format.md, "Digest". It stands before a key, where the size of a topic would stand
// otherwise.
constexpr std::uint64_t kKeyMark = ~std::uint64_t{0};

}  // namespace

AppendDigest DigestOf(std::span<const MessageView> messages, const MessageKeys& keys) {
  Hasher128 hasher;
  std::string numbers;
  for (std::size_t row = 0; row < messages.size(); ++row) {
    const MessageView& message = messages[row];
    if (const auto key = keys.Of(row)) {
      numbers.clear();
      AppendLittle<std::uint64_t>(&numbers, kKeyMark);
      AppendLittle<std::uint64_t>(&numbers, key->size());
      hasher.Add(numbers);
      hasher.Add(*key);
    }
    numbers.clear();
    AppendLittle<std::uint64_t>(&numbers, message.topic.size());
    AppendLittle<std::uint64_t>(&numbers, message.value.size());
    AppendLittle<std::uint64_t>(&numbers, static_cast<std::uint64_t>(message.timestamp));
    hasher.Add(numbers);
    hasher.Add(message.topic);
    hasher.Add(message.value);
  }
  return hasher.Finish();
}

Status CheckAppendId(std::string_view id) {
  if (id.empty()) return InvalidArgument("id: it is empty; None is for an append without one");
  if (id.size() <= kAppendIdBytesMax) return Status::Ok();
  return InvalidArgument("id: it has " + std::to_string(id.size()) + " bytes, at most " +
                         std::to_string(kAppendIdBytesMax) + " are allowed");
}

Status CheckSameAppend(const AppendId& append, const KnownAppend& known) {
  if (append.digest == known.digest && append.messages == known.messages) return Status::Ok();
  return InvalidArgument(
      "id '" + append.id + "' was used for another append, of " + std::to_string(known.messages) +
      " messages: an append that is repeated has the same messages in the same order; nothing was "
      "stored");
}

std::optional<KnownAppend> AppendIds::Find(std::string_view id) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(std::string(id));
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

std::vector<Serial> AppendIds::ForgottenAfter(std::size_t more) const {
  const MutexLock lock(mutex_);
  const std::size_t all = by_serial_.size() + more;
  const std::size_t forgotten =
      all <= kAppendIdsMax ? 0 : std::min(all - kAppendIdsMax, by_serial_.size());
  std::vector<Serial> serials;
  for (std::size_t i = 0; i < forgotten; ++i) serials.push_back(by_serial_[i]->second.serial);
  return serials;
}

void AppendIds::Add(const std::string& id, const KnownAppend& known) {
  const MutexLock lock(mutex_);
  assert(by_serial_.empty() || by_serial_.back()->second.serial < known.serial);
  const auto [added, is_new] = known_.emplace(id, known);
  if (!is_new) return;
  by_serial_.push_back(&*added);
  while (by_serial_.size() > kAppendIdsMax) {
    const Known::value_type* const oldest = by_serial_.front();
    by_serial_.pop_front();
    known_.erase(known_.find(oldest->first));
  }
}

void AppendIds::TakeAll(AppendIds* other) {
  Known known;
  std::deque<const Known::value_type*> by_serial;
  {
    const MutexLock lock(other->mutex_);
    known.swap(other->known_);
    by_serial.swap(other->by_serial_);
  }
  const MutexLock lock(mutex_);
  known_.swap(known);
  by_serial_.swap(by_serial);
}

std::size_t AppendIds::size() const {
  const MutexLock lock(mutex_);
  return by_serial_.size();
}

}  // namespace topicdb
