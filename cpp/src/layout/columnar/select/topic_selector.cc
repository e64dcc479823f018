#include "layout/columnar/select/topic_selector.h"

#include <algorithm>

#include "layout/columnar/format/block_filter.h"

namespace topicdb::columnar {

namespace {

// For more streams than this, asking the filter costs more than it saves.
constexpr std::size_t kStreamsAskedMax = 256;

}  // namespace

TopicSelector::Wanted::Wanted(const Filter& wanted)
    : filter(wanted),
      every_topic(wanted.levels().empty() && wanted.ends_in_hash()),
      exact(wanted.is_topic()) {
  bool literal = true;
  std::size_t depth = 0;
  for (const Filter::Level& level : filter.levels()) {
    if (level.kind == Filter::LevelKind::kWord) {
      word_hashes.push_back(WordHash(depth, level.word));
      if (literal && depth > 0) prefix += '/';
      if (literal) prefix += level.word;
    } else {
      if (literal && depth > 0) prefix += '/';
      literal = false;
    }
    ++depth;
  }
}

bool TopicSelector::Wanted::Matches(std::string_view topic) const {
  if (every_topic) return !IsDollarLevel(topic);
  return topic.starts_with(prefix) && filter.Matches(topic);
}

bool TopicSelector::Wanted::MayBeIn(const std::string* first, const std::string* last) const {
  if (last != nullptr && prefix > *last) return false;
  if (first == nullptr || *first <= prefix) return true;
  return !exact && first->starts_with(prefix);
}

TopicSelector::TopicSelector(const ReadRequest& request)
    : streams_(request.streams.has_value()
                   ? std::make_shared<const std::vector<StreamId>>(*request.streams)
                   : nullptr) {
  any_of_.emplace_back(request.filter);
  for (const Filter& filter : request.or_filters) any_of_.emplace_back(filter);
  has_words_ = std::none_of(any_of_.begin(), any_of_.end(),
                            [](const Wanted& wanted) { return wanted.word_hashes.empty(); });
}

bool TopicSelector::SelectsStream(StreamId stream) const {
  return streams_ == nullptr || std::binary_search(streams_->begin(), streams_->end(), stream);
}

bool TopicSelector::Selects(StreamId stream, std::string_view topic) const {
  if (!SelectsStream(stream)) return false;
  return std::any_of(any_of_.begin(), any_of_.end(),
                     [&](const Wanted& wanted) { return wanted.Matches(topic); });
}

bool TopicSelector::MayHoldStreams(std::string_view stream_filter) const {
  if (streams_ == nullptr || streams_->size() > kStreamsAskedMax) return true;
  return std::any_of(streams_->begin(), streams_->end(), [&](StreamId stream) {
    return MayContain(stream_filter, StreamHash(stream));
  });
}

bool TopicSelector::MayHoldWords(std::string_view word_filter) const {
  return std::any_of(any_of_.begin(), any_of_.end(), [&](const Wanted& wanted) {
    return std::all_of(wanted.word_hashes.begin(), wanted.word_hashes.end(),
                       [&](std::uint64_t hash) { return MayContain(word_filter, hash); });
  });
}

bool TopicSelector::MayHoldRange(const std::string* first, const std::string* last) const {
  return std::any_of(any_of_.begin(), any_of_.end(),
                     [&](const Wanted& wanted) { return wanted.MayBeIn(first, last); });
}

Result<WantedStreams> TopicSelector::StreamsIn(const Block& block, BlockReader* reader) const {
  if (streams_ == nullptr || !block.entry.staged) return streams_;
  TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader->LoadPlacement(block));
  const std::vector<std::uint32_t> groups = placement->GroupsOf(*streams_);
  return WantedStreams(std::make_shared<const std::vector<StreamId>>(groups.begin(), groups.end()));
}

bool TopicSelector::MayHoldPage(const WantedStreams& streams, const PageEntry& page,
                                const PageEntry* next) const {
  if (streams == nullptr) {
    if (next == nullptr || next->first_stream != page.first_stream) return true;
    return MayHoldRange(&page.first_topic, &next->first_topic);
  }
  auto stream = std::lower_bound(streams->begin(), streams->end(), page.first_stream);
  for (; stream != streams->end(); ++stream) {
    if (next != nullptr && *stream > next->first_stream) return false;
    const bool from_first = *stream == page.first_stream;
    const bool to_last = next != nullptr && *stream == next->first_stream;
    if (MayHoldRange(from_first ? &page.first_topic : nullptr,
                     to_last ? &next->first_topic : nullptr)) {
      return true;
    }
  }
  return false;
}

ReadRequest PointRequest(const PlacedMessage& place, Filter filter,
                         const std::vector<RowMask>& masks, Serial serial_max) {
  ReadRequest request;
  request.streams = std::vector<StreamId>{place.stream};
  request.filter = std::move(filter);
  request.range = Instant(place.timestamp);
  request.masks = masks;
  request.serial_max = serial_max;
  return request;
}

}  // namespace topicdb::columnar
