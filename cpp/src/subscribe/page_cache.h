// Keeps pages of the log that were read recently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "subscribe/log_page.h"

namespace topicdb {

// Keeps the latest pages of all shards, up to `bytes_max` bytes. The hub owns it. Not thread-safe:
// the hub's mutex guards it.
class PageCache {
 public:
  explicit PageCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns a page that has all messages of the interest from this place on, as far as the page
  // goes. Returns null if there is none.
  std::shared_ptr<LogPage> Find(std::uint32_t shard, const CommitPlace& place,
                                const Interest& interest) const {
    for (const auto& page : pages_) {
      if (page->span().shard == shard && page->Holds(place) && page->Covers(interest)) return page;
    }
    return nullptr;
  }
  // Removes the pages of this shard that were read from a view with another removals version.
  void KeepOnly(std::uint32_t shard, std::uint64_t removals_version) {
    std::uint64_t& known = removals_versions_[shard];
    if (std::exchange(known, removals_version) == removals_version) return;
    std::erase_if(pages_, [&](const std::shared_ptr<LogPage>& page) {
      const LogSpan& span = page->span();
      if (span.shard != shard || span.removals_version == removals_version) return false;
      bytes_ -= page->bytes();
      return true;
    });
  }
  // Adds a page. Removes the oldest ones if there are too many pages or bytes, but never this one.
  void Add(std::shared_ptr<LogPage> page) {
    bytes_ += page->bytes();
    pages_.push_front(std::move(page));
    while (pages_.size() > 1 && (bytes_ > bytes_max_ || pages_.size() > kPagesMax)) {
      bytes_ -= pages_.back()->bytes();
      pages_.pop_back();
    }
  }
  void Clear() {
    pages_.clear();
    bytes_ = 0;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  // Find looks at all pages.
  static constexpr std::size_t kPagesMax = 1'024;

  const std::size_t bytes_max_;
  std::deque<std::shared_ptr<LogPage>> pages_;                // the latest is first
  std::map<std::uint32_t, std::uint64_t> removals_versions_;  // by shard, from the last KeepOnly
  std::size_t bytes_ = 0;
};

}  // namespace topicdb
