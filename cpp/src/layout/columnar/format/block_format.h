// Keys and records of the columnar layout, byte by byte (docs/format.md draws them too). Numbers in
// keys are big-endian; records end with the CRC of all bytes before it.
//
// The slab's family:
//   1 | block u64                  entry of a fresh block
//   2 | block u64                  its page
//   3 | block u64                  entry of a sealed block
//   4 | block u64                  its directory: where its pages begin
//   5 | block u64 | page u32       rows of a page that are deleted
//   6 | block u64                  filter over the words of a sealed block's topics
//   7 | block u64                  of a staged block: what its pages do not know (Placement)
//   8 | block u64                  of a paged block: its topics (topic_list.h). May be absent
// The slab's second family, where keys only ever grow, so that RocksDB need not merge its files:
//   pages u64 | page u32           page of a sealed block; pages: its number, or of a staged block
//                                  Placement::pages, which is from kStagedPagesMin on
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

namespace topicdb::columnar {

// Of one slab, counted up from 1. Those of fresh blocks grow in the order of commits.
using BlockId = std::uint64_t;

// DO NOT CHANGE THESE VALUES: they are on disk. Zero is no key.
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

// Every key of the kind begins with this.
std::string KindPrefix(RecordKind kind);
std::string RecordKey(RecordKind kind, BlockId block);
std::string DeletedRowsKey(BlockId block, std::uint32_t page);
std::string SealedPageKey(std::uint64_t pages, std::uint32_t page);
// The block of a key made by RecordKey or DeletedRowsKey; 0 if it is none.
BlockId BlockOf(std::string_view key);

// What is known of a block without reading it.
struct BlockEntry {
  PageCodec codec = PageCodec::kNone;
  std::uint32_t rows = 0;
  std::uint32_t pages = 0;
  Extent extent;
  std::uint64_t bytes = 0;  // of topics and values
  bool staged = false;      // was prepared by a job: it has pages as a sealed one, and a Placement
  // How often its messages were written again to be apart in time from others (overlap.h). 0 of
  // staged ones.
  std::uint32_t level = 0;
  std::string streams;  // filter over the streams (block_filter.h)
};
std::string Encode(const BlockEntry& entry);
bool Decode(std::string_view bytes, BlockEntry* entry);
// Rows of a block and their extent, as other records have them.
void AppendRowsAndExtent(std::string* out, std::uint32_t rows, const Extent& extent);
bool ReadRowsAndExtent(Decoder* decoder, std::uint32_t* rows, Extent* extent);

struct PageEntry {
  std::uint32_t rows = 0;
  Extent extent;
  std::uint32_t first_stream = 0;
  std::string first_topic;  // a topic that goes on from the page before begins here, too
};
using Directory = std::vector<PageEntry>;
std::string Encode(const Directory& directory);
bool Decode(std::string_view bytes, Directory* directory);

// A filter over words (block_filter.h), with a checksum: a wrong bit would hide messages.
std::string EncodeFilter(std::string_view filter);
bool DecodeFilter(std::string_view bytes, std::string* filter);

// The serial of every message in the pages of staged blocks.
inline constexpr std::uint64_t kStagedSerial = 1;

// What a commit has decided about a staged block. Its pages were written before: their serials are
// 1, their times may count from 0, and where a stream should be they have the number of a *group*
// of topics, which mostly are of one stream.
struct Placement {
  struct Group {
    std::uint32_t group = 0;
    std::uint32_t stream = 0;  // of its topics but for these, which are sorted by topic
    std::vector<std::pair<std::string, std::uint32_t>> others;
  };
  std::uint64_t pages = 0;      // first part of their keys
  std::uint64_t serial = 0;     // of all messages
  std::int64_t time_shift = 0;  // to be added to the times in pages
  std::vector<Group> groups;    // sorted, each once

  // Null: the block has no such group.
  const Group* Find(std::uint32_t group) const;
  // 0: the block has no such group.
  std::uint32_t StreamOf(std::uint32_t group, std::string_view topic) const;
  // Groups that have topics of these streams (sorted). REQUIRES: sorted
  std::vector<std::uint32_t> GroupsOf(const std::vector<std::uint32_t>& streams) const;
};
std::string Encode(const Placement& placement);
bool Decode(std::string_view bytes, Placement* placement);

// Sorted, each once.
using DeletedRows = std::vector<std::uint32_t>;
// By page; pages without deleted rows are left out.
using DeletedByPage = std::map<std::uint32_t, DeletedRows>;
std::string Encode(const DeletedRows& rows);
bool Decode(std::string_view bytes, DeletedRows* rows);

// Tells of the rows of a page, asked for in ascending order, which are deleted. It borrows the
// list.
class DeletedCursor {
 public:
  explicit DeletedCursor(const DeletedRows& rows) : next_(rows.begin()), end_(rows.end()) {}

  bool Holds(std::uint32_t row) {
    while (next_ != end_ && *next_ < row) ++next_;
    return next_ != end_ && *next_ == row;
  }

 private:
  DeletedRows::const_iterator next_;
  const DeletedRows::const_iterator end_;
};

}  // namespace topicdb::columnar
