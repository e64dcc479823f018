// Keys and records of the layout columnar, byte by byte (docs/internals/format.md draws them too).
// Numbers in keys are big-endian. Each record ends with the CRC of all its bytes before the CRC.
//
// The slab's family `main`:
//   1 | block u64                  entry of a fresh block
//   2 | block u64                  its page
//   3 | block u64                  entry of a sealed block
//   4 | block u64                  its directory: where its pages begin
//   5 | block u64 | page u32       rows of a page that are deleted
//   6 | block u64                  filter over the words of a sealed block's topics
//   7 | block u64                  of a staged block: what its pages do not know (Placement)
//   8 | block u64                  of a paged block: its topics (topic_list.h). May be absent
// The slab's family `sealed`. Its keys are written in ascending order, so RocksDB need not merge
// its files:
//   pages u64 | page u32           page of a sealed or staged block, or the keys of the page.
//                                  `pages` is the number of the sealed block, or of a staged block
//                                  Placement::pages, which is at least kStagedPagesMin
//   pages u64 | 2^31 + page u32    the values of the page, if they are apart (PageForm::kApart).
//                                  So all keys of a block lie together, and then all values
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes/coding.h"
#include "layout/columnar/format/page.h"
#include "layout/staged_block.h"
#include "topicdb/types/numbers.h"

namespace topicdb::columnar {

// The kinds of records in the family `main`, as drawn above. DO NOT CHANGE THESE VALUES: they are
// on disk. No record has the kind zero.
enum class RecordKind : std::uint8_t {
  kFreshEntry = 1,
  kFreshPage = 2,
  kSealedEntry = 3,
  kDirectory = 4,
  kDeletedRows = 5,
  kWordFilter = 6,
  kPlacement = 7,
  kTopics = 8,
};

// Returns what every key of the kind begins with.
std::string KindPrefix(RecordKind kind);
// Return the keys that are drawn above. RecordKey is for all kinds but kDeletedRows.
std::string RecordKey(RecordKind kind, BlockId block);
// Deletes are always in the log, and blocks may not be (Durability::kNone). So a crash may take a
// block and leave the record of its deleted rows. No other block may get the number of that block.
std::string DeletedRowsKey(BlockId block, std::uint32_t page);
// `record` is the number of the page, or ValuesOf(that number).
std::string SealedPageKey(std::uint64_t pages, std::uint32_t record);
inline constexpr std::uint32_t kValuesBegin = std::uint32_t{1} << 31;
inline std::uint32_t ValuesOf(std::uint32_t page) { return kValuesBegin + page; }
// Returns the block of a key that RecordKey or DeletedRowsKey made, or kNoBlock if the key is too
// short to be one of these.
BlockId BlockOf(std::string_view key);
// Returns what errors and reports call a block, such as "block 7".
std::string NameOf(BlockId block);

// The entry of a block: what a reader must know before it decides to read the block.
struct BlockEntry {
  PageCodec codec = PageCodec::kNone;
  std::uint32_t rows = 0;
  std::uint32_t pages = 0;
  Extent extent;
  std::uint64_t bytes = 0;  // of topics and values
  // If true, a job prepared the block: it has pages as a sealed block has, and a Placement.
  bool staged = false;
  // How often the messages were written again to bring blocks apart that overlap in time
  // (overlap.h). 0 for a staged block.
  std::uint32_t level = 0;
  // Whether keys and values of the pages are apart. The pages of a fresh block that is not staged
  // are always one record.
  PageForm form = PageForm::kTogether;
  std::uint64_t value_bytes = 0;  // of values; known only if they are apart
  std::string streams;            // filter over the streams (block_filter.h)
};
// Returns whether each page of the block has a record of values.
inline bool HasValueRecords(const BlockEntry& entry) {
  return entry.form == PageForm::kApart && entry.value_bytes > 0;
}
// Encode a record and decode it. Every Decode returns false if the bytes are damaged.
std::string Encode(const BlockEntry& entry);
bool Decode(std::string_view bytes, BlockEntry* entry);
// Encodes and decodes the number of rows of a block and their extent, for other records.
void AppendRowsAndExtent(std::string* out, std::uint32_t rows, const Extent& extent);
bool ReadRowsAndExtent(Decoder* decoder, std::uint32_t* rows, Extent* extent);

// What a directory says about a page.
struct PageEntry {
  std::uint32_t rows = 0;
  Extent extent;
  StreamId first_stream;    // in a staged block, the group of the first topic
  std::string first_topic;  // the previous page may end with rows of the same topic
};
// The pages of a paged block, in their order.
using Directory = std::vector<PageEntry>;
std::string Encode(const Directory& directory);
bool Decode(std::string_view bytes, Directory* directory);

// Encodes and decodes a filter over words (block_filter.h) with a checksum: a wrong bit would hide
// messages.
std::string EncodeFilter(std::string_view filter);
bool DecodeFilter(std::string_view bytes, std::string* filter);

// The serial of every message in the pages of staged blocks.
inline constexpr Serial kStagedSerial{1};

// What a commit has decided about a staged block. The pages of the block were written before the
// commit: their serials are 1, and their times may count from 0. Instead of streams, they have
// numbers of *groups* of topics. The topics of a group mostly belong to one stream.
struct Placement {
  // The streams of the topics of one group.
  struct Group {
    std::uint32_t group = 0;
    StreamId stream;  // the stream of all topics of the group that are not in `others`
    std::vector<std::pair<std::string, StreamId>> others;  // topic and stream, by topic
  };
  std::uint64_t pages = 0;      // the first part of the pages' keys
  Serial serial;                // of all messages
  std::int64_t time_shift = 0;  // to be added to the times in the pages
  std::vector<Group> groups;    // sorted, each once
  // If true, pages keep their groups in place of streams: their reader needs no streams, and
  // `groups` is empty. It is not stored.
  bool keeps_groups = false;

  // Returns the group with this number, or null if the block has no such group.
  const Group* Find(std::uint32_t group) const;
  // Returns the stream of a topic of this group, or kNoStream if the block has no such group.
  StreamId StreamOf(std::uint32_t group, std::string_view topic) const;
  // Returns the groups that have topics of these streams, sorted. REQUIRES: streams are sorted
  std::vector<std::uint32_t> GroupsOf(const std::vector<StreamId>& streams) const;
};
std::string Encode(const Placement& placement);
bool Decode(std::string_view bytes, Placement* placement);

// The deleted rows of a page: sorted, each once.
using DeletedRows = std::vector<std::uint32_t>;
// The deleted rows of a block, by page. Pages without deleted rows are absent.
using DeletedByPage = std::map<std::uint32_t, DeletedRows>;
std::string Encode(const DeletedRows& rows);
bool Decode(std::string_view bytes, DeletedRows* rows);

// Tells which rows of a page are deleted, in one pass over the page. The list of deleted rows must
// outlive the cursor. Not thread-safe.
class DeletedCursor {
 public:
  explicit DeletedCursor(const DeletedRows& rows) : next_(rows.begin()), end_(rows.end()) {}

  // Returns whether the row is deleted. REQUIRES: rows do not fall from call to call
  bool Holds(std::uint32_t row) {
    while (next_ != end_ && *next_ < row) ++next_;
    return next_ != end_ && *next_ == row;
  }

 private:
  DeletedRows::const_iterator next_;
  const DeletedRows::const_iterator end_;
};

}  // namespace topicdb::columnar
