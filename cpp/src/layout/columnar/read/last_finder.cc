#include "layout/columnar/read/last_finder.h"

#include <algorithm>
#include <limits>

namespace topicdb::columnar {

namespace {

constexpr std::size_t kSeenListsMax = 64;

}  // namespace

struct LastFinder::ListWalk {
  const TopicList& list;
  const Placement* placement;  // of a staged block; null for any other block
  std::size_t next_known = 0;
  std::uint32_t topic = 0;  // the number of the next topic in the list
  std::vector<Known> added = {};
  Bound oldest{std::numeric_limits<std::int64_t>::max(), kLastSerial};
  bool complete = true;  // whether a message is known of every wanted topic so far
};

LastFinder::LastFinder(const RocksSource& source, const ReadRequest& request, LastMessages* found)
    : selector_(request),
      query_({request}),
      start_(request.range.start.value_or(0)),
      end_(request.range.end),
      only_topic_(request.filter.is_topic() && request.or_filters.empty()
                      ? std::optional(request.filter.text())
                      : std::nullopt),
      found_(found),
      reader_(source) {}

ReadCounters LastFinder::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

LastFinder::Bound LastFinder::NewestOf(const Extent& extent) const {
  return {std::min(extent.last_time, end_.value_or(extent.last_time + 1) - 1), extent.last_serial};
}

bool LastFinder::IsNewer(Number number, const Bound& bound) const {
  return found_->BoundOf(number) > bound;
}

bool LastFinder::HasNewerTopic(const Block& block) const {
  if (!only_topic_.has_value()) return false;
  const std::optional<Number> known = found_->Find(*only_topic_);
  return known.has_value() && IsNewer(*known, NewestOf(block.entry.extent));
}

Status LastFinder::List() {
  listed_ = true;
  TOPICDB_ASSIGN_OR_RETURN(blocks_, query_.ListBlocks(reader_));
  counters_.blocks = blocks_.size();
  std::sort(blocks_.begin(), blocks_.end(), [&](const Block& a, const Block& b) {
    return NewestOf(a.entry.extent) > NewestOf(b.entry.extent);
  });
  return Status::Ok();
}

Result<ReadOutcome> LastFinder::Read(std::size_t examined_max) {
  if (end_.has_value() && start_ >= *end_) return ReadOutcome::kExhausted;
  if (!listed_) TOPICDB_RETURN_IF_ERROR(List());
  const std::uint64_t start = examined_;
  while (next_block_ < blocks_.size()) {
    if (examined_ - start > examined_max) return ReadOutcome::kMore;
    TOPICDB_RETURN_IF_ERROR(ReadBlock(blocks_[next_block_++]));
  }
  return ReadOutcome::kExhausted;
}

Status LastFinder::ReadBlock(const Block& block) {
  if (HasNewerTopic(block)) {
    ++counters_.blocks_skipped_by_time;
    return Status::Ok();
  }
  block_ = &block;
  deleted_.clear();
  deleted_loaded_ = false;
  directory_.clear();
  page_.reset();
  if (!block.is_paged()) return ReadPage(0);
  if (only_topic_.has_value()) return ReadPages();
  TOPICDB_ASSIGN_OR_RETURN(const auto record, reader_.LoadTopics(block.id));
  if (!record.has_value()) return ReadPages();
  TopicList list;
  if (!Decode(*record, &list)) {
    return Corruption(NameOf(block.id) + ": the list of its topics is damaged");
  }
  // The list is that of an earlier block with the same number: a version that knows no lists has
  // left it behind.
  if (list.rows != block.entry.rows || list.extent != block.entry.extent ||
      list.page_topics.size() != block.entry.pages) {
    return ReadPages();
  }
  return ReadList(list);
}

Status LastFinder::ReadPages() {
  TOPICDB_RETURN_IF_ERROR(NeedDirectory());
  TOPICDB_ASSIGN_OR_RETURN(const WantedStreams streams, selector_.StreamsIn(*block_, &reader_));
  counters_.pages += directory_.size();
  for (std::size_t number = directory_.size(); number-- > 0;) {
    const PageEntry& page = directory_[number];
    const PageEntry* next = number + 1 < directory_.size() ? &directory_[number + 1] : nullptr;
    if (!query_.rows().Concerns(page.extent)) {
      ++counters_.pages_skipped_by_time;
      continue;
    }
    if (!selector_.MayHoldPage(streams, page, next)) {
      ++counters_.pages_skipped_by_topic;
      continue;
    }
    // The page has rows of one topic only.
    if (next != nullptr && next->first_stream == page.first_stream &&
        next->first_topic == page.first_topic) {
      const std::optional<Number> known = found_->Find(page.first_topic);
      if (known.has_value() && IsNewer(*known, NewestOf(page.extent))) {
        ++counters_.pages_skipped_by_time;
        continue;
      }
    }
    TOPICDB_RETURN_IF_ERROR(ReadPage(static_cast<std::uint32_t>(number)));
  }
  return Status::Ok();
}

Status LastFinder::ReadPage(std::uint32_t number) {
  TOPICDB_RETURN_IF_ERROR(LoadPage(number));
  counters_.rows_examined += page_->rows();
  examined_ += page_->rows();
  const std::vector<bool> wanted = query_.TopicsOf(*page_);
  const auto rank_of = [&](std::uint32_t row) {
    return MessageRank{page_->time(row), page_->serial(row), page_->index(row)};
  };
  std::vector<std::uint32_t> last(page_->topics(), page_->rows());
  for (std::uint32_t row = 0; row < page_->rows(); ++row) {
    const std::uint32_t topic = page_->topic_of(row);
    if (!wanted[topic] || !IsWanted(row)) continue;
    if (last[topic] == page_->rows() || rank_of(row) > rank_of(last[topic])) last[topic] = row;
  }
  for (std::uint32_t topic = 0; topic < page_->topics(); ++topic) {
    const std::uint32_t row = last[topic];
    if (row == page_->rows()) continue;
    found_->Offer(page_->topic(topic), rank_of(row), page_->value(row));
    ++counters_.rows_matched;
  }
  return Status::Ok();
}

Status LastFinder::ReadList(const TopicList& list) {
  const Bound newest = NewestOf(block_->entry.extent);
  const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const SeenList& candidate) {
    return candidate.texts == list.texts;
  });
  if (seen != seen_.end() && seen->oldest > newest) {
    ++counters_.blocks_skipped_by_time;
    return Status::Ok();
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader_.LoadPlacement(*block_));
  counters_.pages += list.page_topics.size();
  TOPICDB_ASSIGN_OR_RETURN(const std::string texts, Expand(list));
  ListWalk walk{.list = list, .placement = placement.get(), .added = {}};
  TOPICDB_RETURN_IF_ERROR(
      ForEachTopic(list, texts, [&](StreamId stream, std::string_view topic, std::uint32_t page) {
        return VisitTopic(&walk, stream, topic, page);
      }));
  examined_ += list.topics;
  AddKnown(std::move(walk.added));
  if (!walk.complete || placement != nullptr) return Status::Ok();
  if (seen != seen_.end()) {
    seen->oldest = walk.oldest;
  } else if (seen_.size() < kSeenListsMax) {
    seen_.push_back({std::string(list.texts), walk.oldest});
  }
  return Status::Ok();
}

Status LastFinder::VisitTopic(ListWalk* walk, StreamId stream, std::string_view topic,
                              std::uint32_t page) {
  const std::uint32_t in_list = walk->topic++;
  const bool in_order = walk->placement == nullptr;
  if (!in_order) {
    stream = walk->placement->StreamOf(stream.value(), topic);
    if (stream == kNoStream) return Misfit(topic, "that was not placed");
  }
  std::optional<Number> number = in_order ? FindKnown(walk, stream, topic) : std::nullopt;
  const bool was_known = number.has_value();
  if (!was_known && !query_.wants_every_topic() && !selector_.Selects(stream, topic)) {
    return Status::Ok();
  }
  if (!was_known) number = found_->Find(topic);
  Bound bound = NewestOf(block_->entry.extent);
  bound.first = std::min(bound.first, walk->list.LastTimeMax(in_list));
  if (!number.has_value() || !IsNewer(*number, bound)) {
    TOPICDB_ASSIGN_OR_RETURN(number, OfferLast(page, topic, number));
  }
  if (!number.has_value()) {
    walk->complete = false;  // all of its messages here are deleted, masked or out of the range
    return Status::Ok();
  }
  const Bound known = found_->BoundOf(*number);
  walk->oldest = {std::min(walk->oldest.first, known.first),
                  std::min(walk->oldest.second, known.second)};
  if (!was_known && in_order) walk->added.push_back({stream, *number});
  return Status::Ok();
}

std::optional<LastFinder::Number> LastFinder::FindKnown(ListWalk* walk, StreamId stream,
                                                        std::string_view topic) const {
  for (; walk->next_known < known_.size(); ++walk->next_known) {
    const Known& known = known_[walk->next_known];
    if (known.stream < stream) continue;
    if (known.stream > stream) return std::nullopt;
    const int order = found_->entry(known.number).topic.compare(topic);
    if (order == 0) return known.number;
    if (order > 0) return std::nullopt;
  }
  return std::nullopt;
}

void LastFinder::AddKnown(std::vector<Known> added) {
  if (added.empty()) return;
  const auto before = [&](const Known& a, const Known& b) {
    if (a.stream != b.stream) return a.stream < b.stream;
    return found_->entry(a.number).topic < found_->entry(b.number).topic;
  };
  std::vector<Known> all(known_.size() + added.size());
  std::merge(known_.begin(), known_.end(), added.begin(), added.end(), all.begin(), before);
  known_ = std::move(all);
}

Status LastFinder::Misfit(std::string_view topic, const std::string& why) const {
  return Corruption(NameOf(block_->id) + ": the list of its topics has '" + std::string(topic) +
                    "' " + why);
}

Result<std::optional<LastFinder::Number>> LastFinder::OfferLast(std::uint32_t number,
                                                                std::string_view topic,
                                                                std::optional<Number> known) {
  if (page_ == nullptr || page_number_ != number) TOPICDB_RETURN_IF_ERROR(LoadPage(number));
  std::uint32_t in_page = next_topic_;
  while (in_page < page_->topics() && page_->topic(in_page) != topic) ++in_page;
  if (in_page == page_->topics()) {
    return Misfit(topic, "that page " + std::to_string(number) + " has not");
  }
  next_topic_ = in_page + 1;
  std::optional<std::uint32_t> row = LastRowOf(in_page);
  while (!row.has_value() && in_page == 0) {
    TOPICDB_ASSIGN_OR_RETURN(const bool goes_back, LoadPageBefore(topic));
    if (!goes_back) return known;
    in_page = page_->topics() - 1;
    row = LastRowOf(in_page);
  }
  if (!row.has_value()) return known;
  ++counters_.rows_matched;
  const MessageRank rank{page_->time(*row), page_->serial(*row), page_->index(*row)};
  if (!known.has_value()) return std::optional(found_->Offer(topic, rank, page_->value(*row)));
  found_->Offer(*known, rank, page_->value(*row));
  return known;
}

std::optional<std::uint32_t> LastFinder::LastRowOf(std::uint32_t topic) {
  // Rows are sorted by topic. So the last row of the topic is before the first row of the next
  // topic.
  std::uint32_t end = 0;
  for (std::uint32_t above = page_->rows(); end < above;) {
    const std::uint32_t middle = end + (above - end) / 2;
    if (page_->topic_of(middle) <= topic) {
      end = middle + 1;
    } else {
      above = middle;
    }
  }
  for (; end > 0 && page_->topic_of(end - 1) == topic; --end) {
    ++counters_.rows_examined;
    ++examined_;
    if (IsWanted(end - 1)) return end - 1;
  }
  return std::nullopt;
}

bool LastFinder::IsWanted(std::uint32_t row) const {
  if (!query_.rows().Wants(*page_, row)) return false;
  if (deleted_rows_ != nullptr &&
      std::binary_search(deleted_rows_->begin(), deleted_rows_->end(), row)) {
    return false;
  }
  return !query_.rows().has_masks() || !query_.rows().IsMasked(*page_, row);
}

Result<bool> LastFinder::LoadPageBefore(std::string_view topic) {
  TOPICDB_RETURN_IF_ERROR(NeedDirectory());
  const StreamId stream = page_->stream(0);
  std::uint32_t number = page_number_;
  const auto is_only_topic = [&](const PageEntry& page) {
    return page.first_topic == topic && page.first_stream == directory_[page_number_].first_stream;
  };
  do {
    if (number == 0) return false;
    --number;
    // If the page has only this topic, its times and serials tell whether it may have wanted rows.
  } while (is_only_topic(directory_[number]) && !query_.rows().Concerns(directory_[number].extent));
  TOPICDB_RETURN_IF_ERROR(LoadPage(number));
  const std::uint32_t last = page_->topics() - 1;
  return page_->topic(last) == topic && page_->stream(last) == stream;
}

Status LastFinder::LoadPage(std::uint32_t number) {
  if (!deleted_loaded_) {
    TOPICDB_ASSIGN_OR_RETURN(deleted_, reader_.LoadDeleted(block_->id));
    deleted_loaded_ = true;
  }
  TOPICDB_ASSIGN_OR_RETURN(page_, reader_.LoadPage(*block_, number));
  ++counters_.pages_read;
  page_number_ = number;
  next_topic_ = 0;
  const auto deleted = deleted_.find(number);
  deleted_rows_ = deleted == deleted_.end() ? nullptr : &deleted->second;
  return Status::Ok();
}

Status LastFinder::NeedDirectory() {
  if (!directory_.empty()) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(directory_, reader_.LoadDirectory(*block_));
  return Status::Ok();
}

}  // namespace topicdb::columnar
