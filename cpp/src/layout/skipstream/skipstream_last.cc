#include "layout/skipstream/skipstream_last.h"

#include <algorithm>
#include <utility>

#include "rocks/rocks_compat.h"

namespace topicdb::skipstream {

SkipstreamLast::SkipstreamLast(const RocksSource& source, ReadRequest request,
                               std::uint32_t timestamp_bytes, LastMessages* found)
    : source_(source),
      request_(std::move(request)),
      timestamp_bytes_(timestamp_bytes),
      topic_builder_(request_.structure),
      found_(found) {}

Result<ReadOutcome> SkipstreamLast::Read(std::size_t examined_max) {
  if (IsEmptyRange(request_.range, timestamp_bytes_)) return ReadOutcome::kExhausted;
  if (!started_) {
    started_ = true;
    const auto words = timestamp_bytes_ == 0 ? std::nullopt : OnlyWords();
    if (words.has_value()) {
      AppendWords(&words_bytes_, std::vector<std::string_view>(words->begin(), words->end()));
      TOPICDB_RETURN_IF_ERROR(OpenRarest(*words));
    } else {
      cursor_ = std::make_unique<RowCursor>(source_, request_, timestamp_bytes_);
      std::string suffix;
      AppendTime(&suffix, request_.range.start.value_or(0), timestamp_bytes_);
      cursor_->Seek(suffix);
    }
  }
  return cursor_ == nullptr ? StepBack(examined_max) : ReadAll(examined_max);
}

std::optional<std::vector<std::string>> SkipstreamLast::OnlyWords() const {
  if (!request_.or_filters.empty()) return std::nullopt;
  if (request_.structure.any) {
    if (!request_.filter.is_topic()) return std::nullopt;
    return std::vector<std::string>{request_.filter.text()};
  }
  const auto row_filter = RowFilter::Make(request_.structure, request_.filter);
  if (!row_filter.has_value() ||
      row_filter->constraints().size() != request_.structure.VaryingCount()) {
    return std::nullopt;
  }
  std::vector<std::string> words;
  for (const RowFilter::Constraint& constraint : row_filter->constraints()) {
    words.push_back(constraint.word);
  }
  return words;
}

Result<ReadOutcome> SkipstreamLast::ReadAll(std::size_t examined_max) {
  std::string topic;
  const std::size_t start = cursor_->examined();
  for (; cursor_->Valid(); cursor_->Next()) {
    const DecodedSuffix& key = cursor_->key();
    const DecodedValue& value = cursor_->value();
    topic.clear();
    topic_builder_.Build(key.words, [&](std::string_view part) { topic.append(part); });
    found_->Offer(topic, {key.timestamp, value.serial, value.index}, value.value);
    counters_.rows_examined = cursor_->examined();
    ++counters_.rows_matched;
    if (cursor_->examined() - start > examined_max) {
      cursor_->Next();
      return cursor_->status().ok() ? Result<ReadOutcome>(ReadOutcome::kMore) : cursor_->status();
    }
  }
  if (!cursor_->status().ok()) return cursor_->status();
  return ReadOutcome::kExhausted;
}

Result<std::unique_ptr<KeyRun>> SkipstreamLast::OpenRun(std::string prefix) const {
  auto run = std::make_unique<KeyRun>(source_, std::move(prefix), request_.range, timestamp_bytes_);
  run->SeekToLast();
  TOPICDB_RETURN_IF_ERROR(run->status());
  return run;
}

Status SkipstreamLast::OpenRarest(const std::vector<std::string>& words) {
  const StreamId stream = request_.streams->front();
  if (words.empty()) {
    std::string prefix;
    AppendDataPrefix(&prefix, stream);
    TOPICDB_ASSIGN_OR_RETURN(run_, OpenRun(std::move(prefix)));
    return Status::Ok();
  }
  for (std::size_t i = 0; i < std::min(words.size(), kIndexedLevelsMax); ++i) {
    std::string prefix;
    AppendIndexPrefix(&prefix, stream, i, words[i]);
    TOPICDB_ASSIGN_OR_RETURN(auto run, OpenRun(std::move(prefix)));
    if (!run->Valid()) {  // no message has this word
      run_.reset();
      return Status::Ok();
    }
    if (run_ == nullptr || run->Suffix() < run_->Suffix()) run_ = std::move(run);
  }
  return Status::Ok();
}

Result<ReadOutcome> SkipstreamLast::StepBack(std::size_t examined_max) {
  if (run_ == nullptr) return ReadOutcome::kExhausted;
  DecodedSuffix key;
  for (std::size_t examined = 0; run_->Valid(); run_->Prev(), ++examined) {
    if (examined > examined_max) return ReadOutcome::kMore;
    ++counters_.rows_examined;
    const std::string_view suffix = run_->Suffix();
    if (!DecodeSuffix(suffix, timestamp_bytes_, &key)) {
      return Corruption("the key of a message is malformed");
    }
    if (key.words_bytes != words_bytes_) continue;
    TOPICDB_ASSIGN_OR_RETURN(const bool is_found, OfferAt(suffix, key));
    if (is_found) return ReadOutcome::kExhausted;
  }
  TOPICDB_RETURN_IF_ERROR(run_->status());
  return ReadOutcome::kExhausted;
}

Result<bool> SkipstreamLast::OfferAt(std::string_view suffix, const DecodedSuffix& key) {
  std::string data_key;
  AppendDataPrefix(&data_key, request_.streams->front());
  data_key.append(suffix);
  rocksdb::ReadOptions options;
  options.snapshot = source_.snapshot;
  rocksdb::PinnableSlice bytes;
  const rocksdb::Status status = source_.db->Get(options, source_.families.main, data_key, &bytes);
  if (status.IsNotFound()) return Corruption("an index entry has no message");
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading a message"));
  DecodedValue value;
  if (!DecodeValue(bytes.ToStringView(), &value)) {
    return Corruption("the header of a message is malformed");
  }
  std::string topic;
  topic_builder_.Build(key.words, [&](std::string_view part) { topic.append(part); });
  const bool is_masked =
      std::any_of(request_.masks.begin(), request_.masks.end(), [&](const RowMask& mask) {
        return mask.Hides(topic, key.timestamp, value.serial, value.index);
      });
  if (value.serial > request_.serial_max || is_masked) return false;
  found_->Offer(topic, {key.timestamp, value.serial, value.index}, value.value);
  ++counters_.rows_matched;
  return true;
}

}  // namespace topicdb::skipstream
