// The layout skipstream: one key for each message, and one small index key for each varying level.
// It is made for state: a message overwrites an earlier one with the same topic and timestamp.
// skipstream_keys.h draws the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "layout/layout.h"

namespace topicdb::skipstream {

// The layout of one slab. The slab owns it. Immutable, and therefore thread-safe.
class SkipstreamLayout : public Layout {
 public:
  // `timestamp_bytes` is that of the database: 0 if its messages have no timestamps.
  explicit SkipstreamLayout(std::uint32_t timestamp_bytes) : timestamp_bytes_(timestamp_bytes) {}

  bool overwrites() const override { return true; }
  bool needs_words() const override { return true; }
  bool reads_one_stream() const override { return true; }
  const MessageLog* log() const override { return nullptr; }
  Status Restore(const RocksSource&, bool, LayoutState*) const override { return Status::Ok(); }
  std::unique_ptr<SlabWriter> NewWriter(const SlabFamilies& families, LayoutState* state,
                                        const ExpectedWrites& expected,
                                        rocksdb::WriteBatch* batch) const override;
  bool RemovesMessages(std::string_view, bool deletes) const override { return deletes; }
  std::unique_ptr<SlabRemover> NewRemover(const RocksSource& source,
                                          rocksdb::WriteBatch* batch) const override;
  Result<std::optional<StoredMessage>> Get(const RocksSource& source, const PlacedMessage& place,
                                           const std::vector<RowMask>& masks) const override;
  std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                          ReadRequest request) const override;
  Result<CheckCounts> Check(const RocksSource& source, const SlabCheck& check) const override;
  Result<StreamSizes> SizesByStream(const RocksSource& source, const std::vector<StreamId>& streams,
                                    const MessageCount& written,
                                    const InterruptCheck& interrupted) const override;
  Status Salvage(const RocksSource& source, const SlabSalvage& call) const override;
  std::unique_ptr<LastReader> NewLastReader(const RocksSource& source, ReadRequest request,
                                            LastMessages* found) const override;

 private:
  const std::uint32_t timestamp_bytes_;
};

}  // namespace topicdb::skipstream
