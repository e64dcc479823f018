// Filters that tell which streams or words are surely not in a block.
//
// They are split-block Bloom filters (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient
// Bloom Filters", 2007) with about 10 bits for each key, and with at most 64 KiB. The constants are
// those of the Parquet format. Empty bytes are a filter that excludes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"

namespace topicdb::columnar {

// Returns the hash under which filters know a stream.
std::uint64_t StreamHash(StreamId stream);
// Returns the hash under which filters know a word. `depth` is the number of the word's level,
// counted from 0.
std::uint64_t WordHash(std::size_t depth, std::string_view word);

// Returns true if a key with this hash may have been added, or if the bytes are no filter.
bool MayContain(std::string_view filter, std::uint64_t hash);

// Builds one filter after the other. Whoever writes a block owns it. Not thread-safe.
class FilterBuilder {
 public:
  // Adds the hash of a key. A hash may be added several times.
  void Add(std::uint64_t hash) { hashes_.push_back(hash); }
  // Adds every word of a topic. Takes the least time if topics come sorted.
  void AddWords(std::string_view topic);
  // Returns the filter, and forgets what was added.
  std::string Build();

 private:
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint64_t> last_words_;  // hashes of the previous topic's words, by depth
};

}  // namespace topicdb::columnar
