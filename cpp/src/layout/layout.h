// How a slab encodes its messages in RocksDB. A released layout never changes. A better encoding
// becomes a new layout beside it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/write_batch.h>

#include "layout/last_messages.h"
#include "layout/message_log.h"
#include "layout/read_request.h"
#include "layout/slab_check.h"
#include "layout/slab_salvage.h"
#include "layout/slab_writer.h"
#include "layout/stream_reader.h"
#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// A number of messages, and their size.
struct MessageCount {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of topics and values
};
// How much is stored of each stream of a slab.
using StreamSizes = std::map<StreamId, MessageCount>;

// A message that was found by its topic and timestamp.
struct StoredMessage {
  Serial serial;
  std::string value;
};

// Encodes the messages of slabs, and makes the objects that write, read, check and salvage them by
// stream, topic and time. A layout for state is only this. A layout that also keeps the order of
// commits is a MessageLog, too. Each slab owns a layout, which lives as long as the slab.
// Immutable, and therefore thread-safe.
class Layout {
 public:
  Layout() = default;
  virtual ~Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  // Returns true if a message replaces an earlier one with the same topic and timestamp. Otherwise
  // both are kept.
  virtual bool overwrites() const = 0;
  // Returns true if the layout needs PlacedMessage::varying.
  virtual bool needs_words() const = 0;
  // Returns true if a read takes exactly one stream. Otherwise a read takes any number of streams.
  virtual bool reads_one_stream() const = 0;
  // Returns the layout as a log of messages, or null if it is a state of keys and values.
  virtual const MessageLog* log() const = 0;

  // Fills the state of a slab that is being opened. Unless `read_only`, removes what a crash has
  // left unfinished, with the log of the source. Returns kCorruption if the records of the slab are
  // damaged.
  virtual Status Restore(const RocksSource& source, bool read_only, LayoutState* state) const = 0;
  // Returns a writer that adds messages to `batch`. `state` is the state of the slab. `state` and
  // `batch` must outlive the writer.
  virtual std::unique_ptr<SlabWriter> NewWriter(const SlabFamilies& families, LayoutState* state,
                                                const ExpectedWrites& expected,
                                                rocksdb::WriteBatch* batch) const = 0;
  // Returns whether a write to the family SlabFamilies::main removes messages that readers have
  // seen, as far as its key tells: a put, or with `deletes` a delete.
  virtual bool RemovesMessages(std::string_view key, bool deletes) const = 0;
  // Returns a remover that adds removals to `batch`, which must outlive it.
  virtual std::unique_ptr<SlabRemover> NewRemover(const RocksSource& source,
                                                  rocksdb::WriteBatch* batch) const = 0;
  // Returns the message of this stream, topic and timestamp that is not masked. If the slab keeps
  // several of them, returns the newest. Returns nothing if there is none, and kCorruption if the
  // data cannot be right.
  virtual Result<std::optional<StoredMessage>> Get(const RocksSource& source,
                                                   const PlacedMessage& place,
                                                   const std::vector<RowMask>& masks) const = 0;
  // Returns a reader of the messages that the request wants, in the order of a stream, from the
  // position of the request on.
  virtual std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                                  ReadRequest request) const = 0;
  // Compares the stored records with each other and with the slab's structures, and reports what
  // cannot be right. Returns how much it has checked, or kInterrupted or kStorage.
  virtual Result<CheckCounts> Check(const RocksSource& source, const SlabCheck& check) const = 0;
  // Returns how much is stored of each of the slab's streams, including deleted messages. May leave
  // out streams that have no messages. Reads few messages or none, and estimates their bytes. The
  // layout skipstream divides `written` among the streams by the bytes that they take in files.
  // Returns kCorruption or kInterrupted.
  virtual Result<StreamSizes> SizesByStream(const RocksSource& source,
                                            const std::vector<StreamId>& streams,
                                            const MessageCount& written,
                                            const InterruptCheck& interrupted) const = 0;
  // Hands out the messages of a damaged slab that can be read, and reports those that cannot.
  // Returns kStorage, or an error of SlabSalvage::take.
  virtual Status Salvage(const RocksSource& source, const SlabSalvage& call) const = 0;
  // Returns a reader that offers messages of the request to `found`. It offers at least the newest
  // message of each topic, unless `found` has a newer one of that topic. It ignores the position of
  // the request. `found` must outlive the reader.
  virtual std::unique_ptr<LastReader> NewLastReader(const RocksSource& source, ReadRequest request,
                                                    LastMessages* found) const = 0;
};

// Returns a new layout of this kind. `timestamp_bytes` is that of the database: 0 if its messages
// have no timestamps.
std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes);

}  // namespace topicdb
