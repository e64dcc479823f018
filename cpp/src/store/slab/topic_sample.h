// A bounded sample of a slab's topics. Structures are learned from it when the slab's generation
// ends. The sample holds the topics whose hash begins with `level` zero bits. When there are too
// many of them, the level rises (P. B. Gibbons, Distinct Sampling, VLDB 2001). So each topic has
// the same chance, however often it comes, and the sample does not depend on the order of topics.
//
// Not thread-safe: like a slab's trie for commits, the sample belongs to the holder of the shard's
// commit mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <rocksdb/db.h>

#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Keeps the hashes of the sampled topics of a slab; the topics themselves are only on disk. The
// Slab owns it.
class TopicSample {
 public:
  static constexpr std::size_t kTopicsMax = 8'192;
  static constexpr std::size_t kTopicBytesMax = 1'024;  // longer ones are left out

  // The topics that one group of commits adds to a sample, which must outlive the edit.
  class Edit {
   public:
    explicit Edit(const TopicSample& base) : base_(base), level_(base.level_) {}
    // Adds a topic if it belongs to the sample and is not in it yet.
    void Add(std::string_view topic, std::uint64_t hash);
    // Adds the edit's records to `batch`. The caller must call this once, before it writes the
    // batch. `serial` is that of a commit, and no other edit of the sample may have the same.
    rocksdb::Status Write(const SlabId& slab, Serial serial, rocksdb::WriteBatch* batch);

   private:
    friend class TopicSample;
    const TopicSample& base_;
    unsigned level_;
    std::string topics_;  // as they are stored
    std::unordered_set<std::uint64_t> hashes_;
  };

  // Adds the topics of an edit whose records were written.
  void Apply(const Edit& edit);
  // Loads a slab's stored sample. Returns kCorruption or kStorage. REQUIRES (Load): this sample is
  // empty
  Status Load(rocksdb::DB* db, const SlabId& slab);
  // Returns the topics of a slab's stored sample. Returns kCorruption or kStorage.
  static Result<std::vector<std::string>> ReadTopics(rocksdb::DB* db, const SlabId& slab);

 private:
  // Calls visit(topic, hash) for each topic of a slab's stored sample, and sets `level`.
  template <typename Visit>
  static Status ForEachTopic(rocksdb::DB* db, const SlabId& slab, unsigned* level, Visit visit);
  // Returns whether the hash begins with `level` zero bits.
  static bool IsBelow(std::uint64_t hash, unsigned level) {
    return level == 0 || hash >> (64 - level) == 0;
  }
  std::unordered_set<std::uint64_t> hashes_;
  unsigned level_ = 0;
};

}  // namespace topicdb
