// Adds messages of a slab to a RocksDB batch, and removals of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <rocksdb/write_batch.h>

#include "layout/read_request.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Says where a writer noted a topic in the page that it builds. With the mark, the writer need not
// look for the topic again.
struct TopicMark {
  std::uint64_t page = 0;  // a number that is unique in the process
  std::uint32_t topic = 0;
};

// A message whose stream and place are decided.
struct PlacedMessage {
  StreamId stream;
  std::string_view topic;
  std::span<const std::string_view> varying;  // the words at the varying levels of the structure;
                                              // empty if !Layout::needs_words()
  std::int64_t timestamp;
  Serial serial;        // of the commit
  std::uint32_t index;  // in the batch that is committed
  std::string_view value;
  TopicMark* mark = nullptr;  // the mark of the topic, if the caller keeps one between messages
};

// What a slab keeps in memory for its layout. The slab owns it, and it lives as long as the slab.
// Thread-safe.
struct LayoutState {
  // Returns a number that no block of the slab has had.
  BlockId NewBlockId() { return BlockId{next_block.fetch_add(1)}; }

  // Forgets the fresh blocks, until somebody counts them anew.
  void ForgetFresh() { fresh_blocks = fresh_bytes = 0; }

  std::atomic<std::uint64_t> next_block{1};  // the number of the next block
  std::atomic<std::uint64_t> fresh_blocks{0};
  std::atomic<std::uint64_t> fresh_bytes{0};
  // Bytes of the topics and values that sealing has written for the first time, and written again.
  std::atomic<std::uint64_t> sealed_bytes{0};
  std::atomic<std::uint64_t> resealed_bytes{0};
};

// Says about how much a writer will get, so that it can reserve memory.
struct ExpectedWrites {
  std::size_t rows = 0;
  std::size_t bytes = 0;  // of topics and values
};

// Adds messages of one slab to one RocksDB batch. The caller owns it. Not thread-safe.
class SlabWriter {
 public:
  SlabWriter() = default;
  virtual ~SlabWriter() = default;
  SlabWriter(const SlabWriter&) = delete;
  SlabWriter& operator=(const SlabWriter&) = delete;

  // Adds a message, and copies what the writer needs of it. The caller must add messages in the
  // order of commits.
  virtual rocksdb::Status Add(const PlacedMessage& message) = 0;
  // Adds to the batch what Add has not added yet. It must be the last call before Apply.
  virtual rocksdb::Status Finish() = 0;
  // Updates the LayoutState. The caller must call Apply once the batch is written.
  virtual void Apply() = 0;
};

// Says what the steps of one large delete have looked at in a slab. The delete finds nothing more
// there, because it does not match what later commits write. So the next step need not look again.
// Whoever takes the steps owns it. Not thread-safe.
struct RemovalProgress {
  bool is_complete = false;  // nothing is left in the whole slab
  // Layout columnar: nothing is left in these blocks, and in the pages of `block` before `page`.
  std::set<BlockId> blocks;
  BlockId block;
  std::uint32_t page = 0;
  // Layout skipstream: nothing is left in each stream up to its position.
  std::map<StreamId, Position> positions;
};

// Adds removals of stored messages to one RocksDB batch. The caller owns it. Not thread-safe.
class SlabRemover {
 public:
  SlabRemover() = default;
  virtual ~SlabRemover() = default;
  SlabRemover(const SlabRemover&) = delete;
  SlabRemover& operator=(const SlabRemover&) = delete;

  // Lets Remove go on where earlier steps of the same delete have ended, and note how far it comes.
  // If a call fails, or the batch is not written, `progress` must not be used any more. It must
  // outlive the remover.
  void GoOnFrom(RemovalProgress* progress) { progress_ = progress; }
  // Lets Remove end once it has examined `rows_left` messages, which it counts down, because
  // callers wait meanwhile. Only the layout columnar takes notice of it. It must outlive the
  // remover.
  void LimitExamined(std::size_t* rows_left) { examined_left_ = rows_left; }
  // Removes at most `rows_max` of the messages that the request finds, and adds their number to
  // `removed`. Returns false if some of them remain, or may remain.
  virtual Result<bool> Remove(const ReadRequest& request, std::size_t rows_max,
                              std::size_t* removed) = 0;
  // Removes the messages of this stream, topic and timestamp, and adds their number to `removed`.
  // Leaves masked messages, and messages of commits after `serial_max`.
  virtual Status RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                             Serial serial_max, std::size_t* removed) = 0;
  // Adds to the batch what Remove and RemovePoint have not added yet. It must be the last call.
  virtual Status Finish() = 0;

 protected:
  // Null: Remove looks at everything.
  RemovalProgress* progress() const { return progress_; }
  // Null: Remove examines any number of messages.
  std::size_t* examined_left() const { return examined_left_; }

 private:
  RemovalProgress* progress_ = nullptr;
  std::size_t* examined_left_ = nullptr;
};

}  // namespace topicdb
