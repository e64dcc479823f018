// The skipstream layout: one key a message, and one small index key for each varying level. For
// state: the same topic and timestamp overwrites. See skipstream_keys.h for the bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "layout/layout.h"

namespace topicdb::skipstream {

class SkipstreamLayout : public Layout {
 public:
  explicit SkipstreamLayout(std::uint32_t timestamp_bytes) : timestamp_bytes_(timestamp_bytes) {}

  rocksdb::Status Put(const PlacedMessage& message, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::WriteBatch* batch) const override;
  rocksdb::Status Delete(const PlacedMessage& message, rocksdb::ColumnFamilyHandle* family,
                         rocksdb::WriteBatch* batch) const override;
  Result<std::optional<StoredMessage>> Get(const RocksSource& source,
                                           const PlacedMessage& message) const override;
  std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                          ReadRequest request) const override;

 private:
  const std::uint32_t timestamp_bytes_;
};

}  // namespace topicdb::skipstream
