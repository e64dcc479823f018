#include "store/slab/topic_sample.h"

#include <algorithm>
#include <memory>

#include "base/bytes/hash.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"

namespace topicdb {

namespace {
constexpr unsigned kLevelMax = 63;
}  // namespace

void TopicSample::Edit::Add(std::string_view topic, std::uint64_t hash) {
  if (!IsBelow(hash, level_) || topic.size() > kTopicBytesMax) return;
  if (base_.hashes_.contains(hash) || !hashes_.insert(hash).second) return;
  meta::AppendSampleTopic(&topics_, topic);
}

rocksdb::Status TopicSample::Edit::Write(const SlabId& slab, Serial serial,
                                         rocksdb::WriteBatch* batch) {
  if (hashes_.empty()) return {};
  rocksdb::Status status = batch->Put(meta::SampleKey(slab, serial), meta::EncodeSample(topics_));
  if (base_.hashes_.size() + hashes_.size() <= kTopicsMax || !status.ok()) return status;
  const auto is_too_large = [&] {
    const auto below = [&](std::uint64_t hash) { return IsBelow(hash, level_); };
    const auto count = std::count_if(hashes_.begin(), hashes_.end(), below) +
                       std::count_if(base_.hashes_.begin(), base_.hashes_.end(), below);
    return static_cast<std::size_t>(count) > kTopicsMax;
  };
  while (is_too_large() && level_ < kLevelMax) ++level_;
  return batch->Put(meta::SampleLevelKey(slab), meta::EncodeSampleLevel(level_));
}

template <typename Visit>
Status TopicSample::ForEachTopic(rocksdb::DB* db, const SlabId& slab, unsigned* level,
                                 Visit visit) {
  const std::string prefix = meta::SampleLevelKey(slab);  // the first key, if it is there
  std::vector<std::string_view> topics;
  const std::unique_ptr<rocksdb::Iterator> records(db->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    topics.clear();
    const std::string_view value = records->value().ToStringView();
    const bool is_level = records->key().size() == prefix.size();
    if (!(is_level ? meta::DecodeSampleLevel(value, level) : meta::DecodeSample(value, &topics))) {
      return Corruption("the sample of a generation's topics is malformed");
    }
    for (const std::string_view topic : topics) {
      if (const std::uint64_t hash = Hash64(topic); IsBelow(hash, *level)) visit(topic, hash);
    }
  }
  return rocks::FromRocks(records->status(), "reading the sample of a generation's topics");
}

Status TopicSample::Load(rocksdb::DB* db, const SlabId& slab) {
  return ForEachTopic(db, slab, &level_,
                      [&](std::string_view, std::uint64_t hash) { hashes_.insert(hash); });
}

Result<std::vector<std::string>> TopicSample::ReadTopics(rocksdb::DB* db, const SlabId& slab) {
  std::vector<std::string> topics;
  unsigned level = 0;
  TOPICDB_RETURN_IF_ERROR(
      ForEachTopic(db, slab, &level,
                   [&](std::string_view topic, std::uint64_t) { topics.emplace_back(topic); }));
  return topics;
}

void TopicSample::Apply(const Edit& edit) {
  hashes_.insert(edit.hashes_.begin(), edit.hashes_.end());
  if (edit.level_ == level_) return;
  level_ = edit.level_;
  std::erase_if(hashes_, [&](std::uint64_t hash) { return !IsBelow(hash, level_); });
}

}  // namespace topicdb
