// Filters that say "surely not in this block" of streams and of words: split-block Bloom filters
// (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007; the constants
// are those of the Parquet format), some 10 bits a key. Empty bytes are a filter that knows
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"

namespace topicdb::columnar {

std::uint64_t StreamHash(std::uint32_t stream);
// depth: of the level, from 0.
std::uint64_t WordHash(std::size_t depth, std::string_view word);

// Whether a key with this hash may have been added; true for bytes that are no filter.
bool MayContain(std::string_view filter, std::uint64_t hash);

class FilterBuilder {
 public:
  void Add(std::uint64_t hash) { hashes_.push_back(hash); }
  // Every word of a topic. Cheapest if topics come sorted.
  void AddWords(std::string_view topic);
  // Forgets what was added.
  std::string Build();

 private:
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint64_t> last_words_;  // of the topic before, by depth
};

}  // namespace topicdb::columnar
