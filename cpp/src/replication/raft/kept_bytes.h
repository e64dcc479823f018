// Bytes of an entry that outlast the call that has brought them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace topicdb::replication {

// Bytes that nobody changes, and the share of whoever has a KeptBytes in what owns them. A copy of
// this object refers to the same bytes. The owner may be larger: the message in which an entry came
// stays in memory as long as one of its entries does. Threads may use copies at the same time.
class KeptBytes {
 public:
  KeptBytes() = default;  // no bytes
  // Owns these bytes.
  explicit KeptBytes(std::string bytes) {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    view_ = *owner;
    owner_ = std::move(owner);
  }
  // `owner` keeps the bytes of `view`.
  KeptBytes(std::shared_ptr<const void> owner, std::string_view view)
      : owner_(std::move(owner)), view_(view) {}

  std::string_view view() const { return view_; }
  bool empty() const { return view_.empty(); }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view view_;
};

}  // namespace topicdb::replication
