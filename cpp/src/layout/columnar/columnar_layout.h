// The layout columnar: messages in blocks of columns. It only appends: it keeps all messages with
// the same topic and timestamp. block_format.h and page.h describe the bytes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "layout/layout.h"

namespace topicdb::columnar {

// The layout of one slab. The slab owns it. It has no members, and is therefore thread-safe. It
// hands most calls to the classes in the folders below.
class ColumnarLayout : public Layout, public MessageLog {
 public:
  bool overwrites() const override { return false; }
  bool needs_words() const override { return false; }
  bool reads_one_stream() const override { return false; }
  const MessageLog* log() const override { return this; }
  Status Restore(const RocksSource& source, bool read_only, LayoutState* state) const override;
  std::unique_ptr<SlabWriter> NewWriter(const SlabFamilies& families, LayoutState* state,
                                        const ExpectedWrites& expected,
                                        rocksdb::WriteBatch* batch) const override;
  bool RemovesMessages(std::string_view key, bool deletes) const override;
  std::unique_ptr<SlabRemover> NewRemover(const RocksSource& source,
                                          rocksdb::WriteBatch* batch) const override;
  Status InstallStaged(const SlabFamilies& families, LayoutState* state, const StagedBlock& block,
                       const StagedPlace& place, rocksdb::WriteBatch* batch) const override;
  Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages) const override;
  Status RemoveUnplaced(const RocksSource& source) const override;
  std::unique_ptr<Sealing> NewSealing(const RocksSource& source, LayoutState* state,
                                      const SealLimits& limits) const override;
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
  std::unique_ptr<LogReader> NewLogReader(const RocksSource& source, const ReadRequest& request,
                                          Serial serial_min) const override;
};

}  // namespace topicdb::columnar
