#include "layout/skipstream/skipstream_layout.h"

#include <algorithm>
#include <array>

#include "layout/skipstream/skipstream_keys.h"
#include "layout/skipstream/skipstream_reader.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes) {
  switch (kind) {
    case LayoutKind::kSkipstream:
      return std::make_unique<skipstream::SkipstreamLayout>(timestamp_bytes);
  }
  return nullptr;
}

namespace skipstream {

namespace {

// Calls visit(key) for each index entry of a message until a status is not OK. What is put must be
// what is deleted.
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

}  // namespace

rocksdb::Status SkipstreamLayout::Put(const PlacedMessage& message,
                                      rocksdb::ColumnFamilyHandle* family,
                                      rocksdb::WriteBatch* batch) const {
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
      batch->Put(family, rocksdb::SliceParts(key_parts.data(), key_parts.size()),
                 rocksdb::SliceParts(value_parts.data(), value_parts.size()));

  if (!status.ok()) return status;
  return ForEachIndexKey(message, suffix, [&](const std::string& key) {
    return batch->Put(family, key, rocksdb::Slice());
  });
}

rocksdb::Status SkipstreamLayout::Delete(const PlacedMessage& message,
                                         rocksdb::ColumnFamilyHandle* family,
                                         rocksdb::WriteBatch* batch) const {
  std::string suffix;
  AppendTime(&suffix, message.timestamp, timestamp_bytes_);
  AppendWords(&suffix, message.varying);
  std::string key;
  AppendDataPrefix(&key, message.stream);
  rocksdb::Status status = batch->Delete(family, key + suffix);
  if (!status.ok()) return status;
  return ForEachIndexKey(message, suffix, [&](const std::string& index_key) {
    return batch->Delete(family, index_key);
  });
}

Result<std::optional<StoredMessage>> SkipstreamLayout::Get(const RocksSource& source,
                                                           const PlacedMessage& message) const {
  std::string key;
  AppendDataPrefix(&key, message.stream);
  AppendTime(&key, message.timestamp, timestamp_bytes_);
  AppendWords(&key, message.varying);
  rocksdb::ReadOptions options;
  options.snapshot = source.snapshot;
  rocksdb::PinnableSlice bytes;
  const rocksdb::Status status = source.db->Get(options, source.family, key, &bytes);
  if (status.IsNotFound()) return std::optional<StoredMessage>();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading a message"));
  DecodedValue decoded;
  if (!DecodeValue(bytes.ToStringView(), &decoded)) {
    return Corruption("the header of a message is malformed");
  }
  return std::optional<StoredMessage>({decoded.serial, std::string(decoded.value)});
}

std::unique_ptr<StreamReader> SkipstreamLayout::NewReader(const RocksSource& source,
                                                          ReadRequest request) const {
  return std::make_unique<SkipstreamReader>(source, std::move(request), timestamp_bytes_);
}

}  // namespace skipstream
}  // namespace topicdb
