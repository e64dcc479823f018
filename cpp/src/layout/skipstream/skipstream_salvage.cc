#include "layout/skipstream/skipstream_salvage.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes/coding.h"
#include "layout/skipstream/skipstream_keys.h"
#include "rocks/rocks_compat.h"
#include "rocks/skipping_iterator.h"

namespace topicdb::skipstream {

namespace {

constexpr std::size_t kPrefixBytes = 6;
constexpr std::size_t kHashBytes = 8;
constexpr std::uint16_t kFirstIndex = 1;

// Counts lost messages of one stream.
struct Lost {
  std::uint64_t messages = 0;
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;

  void Add(std::int64_t time) {
    first_time = messages == 0 ? time : std::min(first_time, time);
    last_time = messages == 0 ? time : std::max(last_time, time);
    ++messages;
  }
};

// Salvages one slab. Used once, by one thread.
class SlabSalvager {
 public:
  SlabSalvager(const RocksSource& source, std::uint32_t timestamp_bytes, const SlabSalvage& call)
      : source_(source), timestamp_bytes_(timestamp_bytes), call_(call) {}

  Status Run() {
    rocks::SkippingIterator records(source_.db, source_.snapshot, source_.families.main);
    for (records.Seek({}); records.Valid(); records.Next()) {
      const std::string_view key = records.key();
      if (key.size() < kPrefixBytes || ReadBig<std::uint16_t>(key.substr(4)) != kDataLevel)
        continue;
      TOPICDB_RETURN_IF_ERROR(Take(key, records.value()));
    }
    TOPICDB_RETURN_IF_ERROR(records.status());
    const bool is_incomplete = call_.is_incomplete || !records.gaps().empty();
    if (is_incomplete) TOPICDB_RETURN_IF_ERROR(FindLost());
    ReportGaps(records.gaps());
    for (const auto& [stream, lost] : lost_) {
      call_.report({"messages that only their index entries tell of",
                    lost.messages,
                    std::pair(lost.first_time, lost.last_time),
                    {stream}});
    }
    for (const auto& [stream, lost] : nameless_) {
      call_.report({"messages of stream " + std::to_string(stream.value()) +
                        ", whose structure is lost: their topics are not known",
                    lost.messages, std::pair(lost.first_time, lost.last_time)});
    }
    return Status::Ok();
  }

 private:
  void OpenStream(StreamId stream) {
    stream_ = stream;
    builder_.reset();
    structure_ = call_.structure_of(stream);
    if (structure_.has_value()) builder_ = std::make_unique<TopicBuilder>(*structure_);
  }

  Status Take(std::string_view key, std::string_view bytes) {
    const StreamId stream = StreamOf(key);
    if (stream != stream_) OpenStream(stream);
    DecodedSuffix suffix;
    DecodedValue value;
    const bool has_key = DecodeSuffix(key.substr(kPrefixBytes), timestamp_bytes_, &suffix);
    if (has_key && builder_ == nullptr) {
      nameless_[stream].Add(suffix.timestamp);
      return Status::Ok();
    }
    if (!has_key || suffix.words.size() != structure_->VaryingCount() ||
        !DecodeValue(bytes, &value)) {
      call_.report(
          {"a malformed message of stream " + std::to_string(stream.value()), 1, {}, {stream}});
      return Status::Ok();
    }
    topic_.clear();
    builder_->Build(suffix.words, [&](std::string_view part) { topic_.append(part); });
    return call_.take({topic_, suffix.timestamp, value.serial, value.index, value.value});
  }

  // Counts in lost_ the index entries whose messages cannot be read.
  Status FindLost() {
    rocks::SkippingIterator records(source_.db, source_.snapshot, source_.families.main);
    std::string data_key;
    for (records.Seek({}); records.Valid(); records.Next()) {
      const std::string_view key = records.key();
      if (key.size() < kPrefixBytes + kHashBytes) continue;
      if (ReadBig<std::uint16_t>(key.substr(4)) != kFirstIndex) continue;
      const std::string_view bytes = key.substr(kPrefixBytes + kHashBytes);
      DecodedSuffix suffix;
      if (!DecodeSuffix(bytes, timestamp_bytes_, &suffix)) continue;
      data_key.clear();
      AppendDataPrefix(&data_key, StreamOf(key));
      data_key.append(bytes);
      TOPICDB_ASSIGN_OR_RETURN(const bool found, CanRead(data_key));
      if (!found) lost_[StreamOf(key)].Add(suffix.timestamp);
    }
    return records.status();
  }

  Result<bool> CanRead(const std::string& key) const {
    rocksdb::ReadOptions options;
    options.snapshot = source_.snapshot;
    rocksdb::PinnableSlice value;
    const rocksdb::Status status = source_.db->Get(options, source_.families.main, key, &value);
    if (status.ok()) return true;
    if (status.IsNotFound() || status.IsCorruption()) return false;
    return rocks::FromRocks(status, "reading a message");
  }

  // Reports the gaps in the keys, except those with index entries only. How many messages a gap had
  // is not known: index entries may be in it, too, and streams without varying levels have none.
  void ReportGaps(const std::vector<rocks::KeyGap>& gaps) const {
    for (const rocks::KeyGap& gap : gaps) {
      const bool has_ends = gap.begin.size() >= kPrefixBytes && gap.end.size() >= kPrefixBytes;
      const bool is_of_one = has_ends && StreamOf(gap.begin) == StreamOf(gap.end);
      if (is_of_one && LevelOf(gap.begin) != kDataLevel) continue;  // only index entries
      Finding finding{"messages are lost: " + gap.why};
      finding.is_counted = false;
      if (gap.begin.size() >= kPrefixBytes) finding.streams = {StreamOf(gap.begin)};
      if (is_of_one) finding.times = TimesOf(gap);
      if (!is_of_one) finding.what += " (of several streams)";
      call_.report(std::move(finding));
    }
  }

  static StreamId StreamOf(std::string_view key) { return StreamId{ReadBig<std::uint32_t>(key)}; }
  static std::uint16_t LevelOf(std::string_view key) {
    return ReadBig<std::uint16_t>(key.substr(sizeof(std::uint32_t)));
  }

  // Returns bounds of the timestamps of the messages in a gap within one stream.
  std::optional<std::pair<std::int64_t, std::int64_t>> TimesOf(const rocks::KeyGap& gap) const {
    const auto time = [](std::string_view key, std::uint64_t otherwise) {
      const bool is_there =
          LevelOf(key) == kDataLevel && key.size() >= kPrefixBytes + sizeof(std::uint64_t);
      return static_cast<std::int64_t>(is_there ? ReadBig<std::uint64_t>(key.substr(kPrefixBytes))
                                                : otherwise);
    };
    if (timestamp_bytes_ == 0) return std::nullopt;
    return std::pair(time(gap.begin, 0), time(gap.end, std::numeric_limits<std::int64_t>::max()));
  }

  const RocksSource source_;
  const std::uint32_t timestamp_bytes_;
  const SlabSalvage& call_;
  StreamId stream_;
  std::optional<Structure> structure_;
  std::unique_ptr<TopicBuilder> builder_;
  std::string topic_;
  std::map<StreamId, Lost> lost_;
  std::map<StreamId, Lost> nameless_;  // messages of streams whose structure is lost
};

}  // namespace

Status SalvageSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                   const SlabSalvage& call) {
  return SlabSalvager(source, timestamp_bytes, call).Run();
}

}  // namespace topicdb::skipstream
