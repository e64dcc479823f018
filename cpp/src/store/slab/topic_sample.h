// Topics of a slab, a bounded sample of them, from which structures are learned when its generation
// is closed. It holds those whose hash begins with `level` zero bits; when they are too many, the
// level rises (P. B. Gibbons, Distinct Sampling, VLDB 2001). So each topic has the same chance,
// however often it comes, and the sample does not depend on their order.
//
// Lock rule: as a slab's trie for commits, it belongs to who holds the shard's commit mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <rocksdb/db.h>

#include "topicdb/types/iterator.h"
#include "topicdb/status.h"

namespace topicdb {

class TopicSample {
 public:
  static constexpr std::size_t kTopicsMax = 8'192;
  static constexpr std::size_t kTopicBytesMax = 1'024;  // longer ones are left out

  // What one group of commits adds.
  class Edit {
   public:
    explicit Edit(const TopicSample& base) : base_(base), level_(base.level_) {}
    void Add(std::string_view topic, std::uint64_t hash);
    // To be called once, before the batch is written. serial: of a commit that no call had before.
    rocksdb::Status Write(const SlabId& slab, std::uint64_t serial, rocksdb::WriteBatch* batch);

   private:
    friend class TopicSample;
    const TopicSample& base_;
    unsigned level_;
    std::string topics_;  // as they are stored
    std::unordered_set<std::uint64_t> hashes_;
  };

  void Apply(const Edit& edit);
  // What is stored of a slab's sample: into this one, which is empty; or the topics.
  Status Load(rocksdb::DB* db, const SlabId& slab);
  static Result<std::vector<std::string>> ReadTopics(rocksdb::DB* db, const SlabId& slab);

 private:
  // Calls visit(topic, hash) for each topic of it.
  template <typename Visit>
  static Status ForEachTopic(rocksdb::DB* db, const SlabId& slab, unsigned* level, Visit visit);
  static bool IsBelow(std::uint64_t hash, unsigned level) {
    return level == 0 || hash >> (64 - level) == 0;
  }
  std::unordered_set<std::uint64_t> hashes_;
  unsigned level_ = 0;
};

}  // namespace topicdb
