#include "layout/skipstream/skipstream_layout.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/bytes/coding.h"
#include "layout/skipstream/skipstream_check.h"
#include "layout/skipstream/skipstream_keys.h"
#include "layout/skipstream/skipstream_last.h"
#include "layout/skipstream/skipstream_reader.h"
#include "layout/skipstream/skipstream_salvage.h"
#include "rocks/rocks_compat.h"

namespace topicdb::skipstream {

namespace {

constexpr ReadLimits kRemovePage{1'000, std::size_t{4} << 20,
                                 std::numeric_limits<std::size_t>::max()};

// RocksDB estimates sizes by whole blocks of its files, which is too rough for small streams. The
// layout counts the messages of a stream that takes less than this in files.
constexpr std::uint64_t kCountedBytesMax = std::uint64_t{256} << 10;

// Returns the number of messages of a stream.
Result<std::uint64_t> CountStream(const RocksSource& source, StreamId stream) {
  std::uint64_t messages = 0;
  std::string prefix;
  AppendDataPrefix(&prefix, stream);
  rocksdb::ReadOptions options;
  options.snapshot = source.snapshot;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> records(
      source.db->NewIterator(options, source.families.main));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    ++messages;
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(records->status(), "counting messages"));
  return messages;
}

// Calls visit(key) for the key of each index entry of a message, until visit returns an error. The
// writer and the remover use it, so they put and delete the same keys.
template <typename Visit>
rocksdb::Status ForEachIndexKey(const PlacedMessage& message, std::string_view suffix,
                                Visit visit) {
  const std::size_t indexed = std::min(message.varying.size(), kIndexedLevelsMax);
  rocksdb::Status status;
  std::string key;
  for (std::size_t i = 0; i < indexed && status.ok(); ++i) {
    key.clear();
    AppendIndexPrefix(&key, message.stream, i, message.varying[i]);
    key.append(suffix);
    status = visit(key);
  }
  return status;
}

// Puts each message into the batch at once. The caller of NewWriter owns it. Not thread-safe.
class SkipstreamWriter : public SlabWriter {
 public:
  SkipstreamWriter(rocksdb::ColumnFamilyHandle* family, rocksdb::WriteBatch* batch,
                   std::uint32_t timestamp_bytes)
      : family_(family), batch_(batch), timestamp_bytes_(timestamp_bytes) {}

  rocksdb::Status Add(const PlacedMessage& message) override {
    std::string suffix;
    AppendTime(&suffix, message.timestamp, timestamp_bytes_);
    AppendWords(&suffix, message.varying);
    std::string prefix;
    AppendDataPrefix(&prefix, message.stream);
    std::string header;
    AppendValueHeader(&header, message.serial, message.index);
    const std::array<rocksdb::Slice, 2> key_parts{rocksdb::Slice(prefix), rocksdb::Slice(suffix)};
    const std::array<rocksdb::Slice, 2> value_parts{
        rocksdb::Slice(header), rocksdb::Slice(message.value.data(), message.value.size())};
    rocksdb::Status status =
        batch_->Put(family_, rocksdb::SliceParts(key_parts.data(), key_parts.size()),
                    rocksdb::SliceParts(value_parts.data(), value_parts.size()));
    if (!status.ok()) return status;
    return ForEachIndexKey(message, suffix, [&](const std::string& key) {
      return batch_->Put(family_, key, rocksdb::Slice());
    });
  }

  rocksdb::Status Finish() override { return {}; }
  void Apply() override {}

 private:
  rocksdb::ColumnFamilyHandle* const family_;
  rocksdb::WriteBatch* const batch_;
  const std::uint32_t timestamp_bytes_;
};

// Adds the removals of a message to the batch at once. The caller of NewRemover owns it. Not
// thread-safe.
class SkipstreamRemover : public SlabRemover {
 public:
  SkipstreamRemover(const RocksSource& source, rocksdb::WriteBatch* batch,
                    std::uint32_t timestamp_bytes)
      : source_(source), batch_(batch), timestamp_bytes_(timestamp_bytes) {}

  Result<bool> Remove(const ReadRequest& request, std::size_t rows_max,
                      std::size_t* removed) override {
    const StreamId stream = request.streams->front();
    ReadRequest rest = request;
    if (progress() != nullptr) {
      rest.position = progress()->positions.try_emplace(stream, request.position).first->second;
    }
    SkipstreamReader reader(source_, std::move(rest), timestamp_bytes_);
    std::vector<std::string_view> varying;
    for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
      Batch page;
      TOPICDB_ASSIGN_OR_RETURN(outcome, reader.Read(kRemovePage, &page));
      for (std::size_t row = 0; row < page.size(); ++row) {
        if (rows_max == 0) return false;
        VaryingWords(request.structure, page.topic(row), &varying);
        const PlacedMessage place{stream, {}, varying, page.timestamp(row), kNoSerial, 0, {}};
        TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(Delete(place), "preparing a delete"));
        --rows_max;
        ++*removed;
      }
      if (progress() != nullptr) progress()->positions[stream] = reader.position();
    }
    return true;
  }

  Status RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                     Serial serial_max, std::size_t* removed) override {
    TOPICDB_ASSIGN_OR_RETURN(const auto found,
                             SkipstreamLayout(timestamp_bytes_).Get(source_, place, masks));
    if (!found.has_value() || found->serial > serial_max) return Status::Ok();
    ++*removed;
    return rocks::FromRocks(Delete(place), "preparing a delete");
  }

  Status Finish() override { return Status::Ok(); }

 private:
  rocksdb::Status Delete(const PlacedMessage& message) {
    std::string suffix;
    AppendTime(&suffix, message.timestamp, timestamp_bytes_);
    AppendWords(&suffix, message.varying);
    std::string key;
    AppendDataPrefix(&key, message.stream);
    rocksdb::Status status = batch_->Delete(source_.families.main, key + suffix);
    if (!status.ok()) return status;
    return ForEachIndexKey(message, suffix, [&](const std::string& index_key) {
      return batch_->Delete(source_.families.main, index_key);
    });
  }

  const RocksSource source_;
  rocksdb::WriteBatch* const batch_;
  const std::uint32_t timestamp_bytes_;
};

}  // namespace

std::unique_ptr<SlabWriter> SkipstreamLayout::NewWriter(const SlabFamilies& families,
                                                        LayoutState* /*state*/,
                                                        const ExpectedWrites& /*expected*/,
                                                        rocksdb::WriteBatch* batch) const {
  return std::make_unique<SkipstreamWriter>(families.main, batch, timestamp_bytes_);
}

std::unique_ptr<SlabRemover> SkipstreamLayout::NewRemover(const RocksSource& source,
                                                          rocksdb::WriteBatch* batch) const {
  return std::make_unique<SkipstreamRemover>(source, batch, timestamp_bytes_);
}

Result<std::optional<StoredMessage>> SkipstreamLayout::Get(
    const RocksSource& source, const PlacedMessage& place,
    const std::vector<RowMask>& masks) const {
  std::string key;
  AppendDataPrefix(&key, place.stream);
  AppendTime(&key, place.timestamp, timestamp_bytes_);
  AppendWords(&key, place.varying);
  rocksdb::ReadOptions options;
  options.snapshot = source.snapshot;
  rocksdb::PinnableSlice bytes;
  const rocksdb::Status status = source.db->Get(options, source.families.main, key, &bytes);
  if (status.IsNotFound()) return std::optional<StoredMessage>();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading a message"));
  DecodedValue decoded;
  if (!DecodeValue(bytes.ToStringView(), &decoded)) {
    return Corruption("the header of a message is malformed");
  }
  const bool is_masked = std::any_of(masks.begin(), masks.end(), [&](const RowMask& mask) {
    return mask.Hides(place.topic, place.timestamp, decoded.serial, decoded.index);
  });
  if (is_masked) return std::optional<StoredMessage>();
  return std::optional<StoredMessage>({decoded.serial, std::string(decoded.value)});
}

std::unique_ptr<StreamReader> SkipstreamLayout::NewReader(const RocksSource& source,
                                                          ReadRequest request) const {
  return std::make_unique<SkipstreamReader>(source, std::move(request), timestamp_bytes_);
}

Result<CheckCounts> SkipstreamLayout::Check(const RocksSource& source,
                                            const SlabCheck& check) const {
  return CheckSlab(source, timestamp_bytes_, check);
}

Result<StreamSizes> SkipstreamLayout::SizesByStream(const RocksSource& source,
                                                    const std::vector<StreamId>& streams,
                                                    const MessageCount& written,
                                                    const InterruptCheck& interrupted) const {
  std::vector<std::string> bounds;
  for (const StreamId stream : streams) {
    AppendDataPrefix(&bounds.emplace_back(), stream);
    bounds.emplace_back();
    AppendBig<std::uint32_t>(&bounds.back(), stream.Next().value());
  }
  std::vector<rocksdb::Range> ranges;
  for (std::size_t i = 0; i < bounds.size(); i += 2) ranges.emplace_back(bounds[i], bounds[i + 1]);
  std::vector<std::uint64_t> bytes(ranges.size());
  rocksdb::SizeApproximationOptions options;
  options.include_memtables = true;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      source.db->GetApproximateSizes(options, source.families.main, ranges.data(),
                                     static_cast<int>(ranges.size()), bytes.data()),
      "measuring streams"));
  const double all = std::max(1.0, std::accumulate(bytes.begin(), bytes.end(), 0.0));
  StreamSizes sizes;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (interrupted && interrupted()) return Interrupted();
    double part = static_cast<double>(bytes[i]) / all;
    auto messages = static_cast<std::uint64_t>(part * static_cast<double>(written.messages));
    if (bytes[i] < kCountedBytesMax) {
      TOPICDB_ASSIGN_OR_RETURN(messages, CountStream(source, streams[i]));
      // A commit may have come between `written` and the moment that is counted.
      const std::uint64_t most = std::max<std::uint64_t>({written.messages, messages, 1});
      part = static_cast<double>(messages) / static_cast<double>(most);
    }
    if (messages == 0) continue;
    sizes[streams[i]] = {messages,
                         static_cast<std::uint64_t>(part * static_cast<double>(written.bytes))};
  }
  return sizes;
}

Status SkipstreamLayout::Salvage(const RocksSource& source, const SlabSalvage& call) const {
  return skipstream::SalvageSlab(source, timestamp_bytes_, call);
}

std::unique_ptr<LastReader> SkipstreamLayout::NewLastReader(const RocksSource& source,
                                                            ReadRequest request,
                                                            LastMessages* found) const {
  return std::make_unique<SkipstreamLast>(source, std::move(request), timestamp_bytes_, found);
}

}  // namespace topicdb::skipstream
