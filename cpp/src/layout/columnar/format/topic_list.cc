// The record has these parts after the version byte. Numbers without a type are varints:
//
//   block    number of rows, extent as in an entry
//   topics   number of topics, number of pages, and for each page the number of topics whose
//            last row is in it
//   texts    codec u8, size before compression, size after compression, compressed bytes
//   ages     a byte for each topic: how much older than the last time of the block its last
//            message is at least, in units of AgeStep; or nothing for all topics
//
// The texts have these parts for each topic, before compression:
//
//   stream   the difference to the stream of the topic before
//   shared   number of bytes shared with the topic before
//   further  number of further bytes, and these bytes
#include "layout/columnar/format/topic_list.h"

#include <algorithm>
#include <numeric>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "layout/columnar/format/block_format.h"

namespace topicdb::columnar {

namespace {

constexpr std::string_view kVersion("\1", 1);
constexpr std::int64_t kAges = 256;
// A record is worth storing if it has at most kSmallBytes, or at most one part in kBlockShare of
// the bytes of the block's messages before compression.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;
constexpr std::size_t kBlockShare = 32;
// Sorted topics take half the space that they take with LZ4.
constexpr PageCodec kCodec = PageCodec::kZstd;

// Returns the unit of ages. It is so large that all ages in the extent are less than kAges.
std::int64_t AgeStep(const Extent& extent) {
  return (extent.last_time - extent.first_time) / kAges + 1;
}

bool ReadPageTopics(Decoder* decoder, std::size_t size_max, TopicList* list) {
  const std::uint64_t topics = decoder->Varint();
  const std::uint64_t pages = decoder->Varint();
  if (topics == 0 || topics > list->rows || pages == 0 || pages > size_max) return false;
  list->topics = static_cast<std::uint32_t>(topics);
  list->page_topics.resize(pages);
  std::uint64_t sum = 0;
  for (std::uint32_t& page : list->page_topics) {
    const std::uint64_t count = decoder->Varint();
    sum += count;
    if (count > topics) return false;
    page = static_cast<std::uint32_t>(count);
  }
  return sum == topics;
}

}  // namespace

std::int64_t TopicList::LastTimeMax(std::uint32_t topic) const {
  if (ages.empty()) return extent.last_time;
  return extent.last_time - static_cast<unsigned char>(ages[topic]) * AgeStep(extent);
}

bool Decode(std::string_view bytes, TopicList* list) {
  const auto body = OpenRecord(bytes, kVersion);
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  if (!ReadRowsAndExtent(&decoder, &list->rows, &list->extent) ||
      !ReadPageTopics(&decoder, body->size(), list)) {
    return false;
  }
  const auto codec = decoder.Little<std::uint8_t>();
  const std::uint64_t texts_bytes = decoder.Varint();
  list->texts = decoder.Prefixed();
  list->ages = decoder.rest();
  if (!decoder.ok() || codec != static_cast<std::uint8_t>(kCodec) || texts_bytes > kPageBytesMax ||
      !IsPossibleSize(kCodec, list->texts.size(), texts_bytes)) {
    return false;
  }
  list->texts_bytes = static_cast<std::uint32_t>(texts_bytes);
  return list->ages.empty() || list->ages.size() == list->topics;
}

Result<std::string> Expand(const TopicList& list) {
  std::string texts(list.texts_bytes, '\0');
  TOPICDB_RETURN_IF_ERROR(Decompress(kCodec, list.texts, texts.data(), texts.size()));
  return texts;
}

bool IsWorthStoring(std::string_view record, std::uint64_t block_bytes) {
  return record.size() <= kSmallBytes || record.size() <= block_bytes / kBlockShare;
}

void TopicListBuilder::Add(StreamId stream, std::string_view topic, std::uint32_t page,
                           std::optional<std::int64_t> last_time) {
  const auto shared = static_cast<std::size_t>(
      std::mismatch(topic_.begin(), topic_.end(), topic.begin(), topic.end()).first -
      topic_.begin());
  AppendVarint(&texts_, stream.value() - stream_.value());
  AppendVarint(&texts_, shared);
  AppendPrefixed(&texts_, topic.substr(shared));
  stream_ = stream;
  topic_.resize(shared);
  topic_.append(topic.substr(shared));
  if (page_topics_.size() <= page) page_topics_.resize(page + 1);
  ++page_topics_[page];
  if (last_time.has_value()) last_times_.push_back(*last_time);
  ++topics_;
}

Result<std::string> TopicListBuilder::Build(std::uint32_t rows, std::uint32_t pages,
                                            const Extent& extent) const {
  std::string record(kVersion);
  AppendRowsAndExtent(&record, rows, extent);
  AppendVarint(&record, topics_);
  AppendVarint(&record, pages);
  for (std::uint32_t page = 0; page < pages; ++page) {
    AppendVarint(&record, page < page_topics_.size() ? page_topics_[page] : 0);
  }
  record.push_back(static_cast<char>(kCodec));
  AppendVarint(&record, texts_.size());
  std::string compressed;
  TOPICDB_RETURN_IF_ERROR(PageCompressor(kCodec).Compress(texts_, &compressed));
  AppendPrefixed(&record, compressed);
  const std::int64_t step = AgeStep(extent);
  for (const std::int64_t time : last_times_) {
    record.push_back(static_cast<char>((extent.last_time - time) / step));
  }
  return CloseRecord(std::move(record));
}

}  // namespace topicdb::columnar
