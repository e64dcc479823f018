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
// The slab's second family, where keys only ever grow, so that RocksDB need not merge its files:
//   block u64 | page u32           page of a sealed block
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/page.h"

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
};

// Every key of the kind begins with this.
std::string KindPrefix(RecordKind kind);
std::string RecordKey(RecordKind kind, BlockId block);
std::string DeletedRowsKey(BlockId block, std::uint32_t page);
std::string SealedPageKey(BlockId block, std::uint32_t page);
// The block of a key made by RecordKey or DeletedRowsKey; 0 if it is none.
BlockId BlockOf(std::string_view key);

// What is known of a block without reading it.
struct BlockEntry {
  PageCodec codec = PageCodec::kNone;
  std::uint32_t rows = 0;
  std::uint32_t pages = 0;
  Extent extent;
  std::uint64_t bytes = 0;  // of topics and values
  std::string streams;      // filter over the streams (block_filter.h)
};
std::string Encode(const BlockEntry& entry);
bool Decode(std::string_view bytes, BlockEntry* entry);

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

// Sorted, each once.
using DeletedRows = std::vector<std::uint32_t>;
std::string Encode(const DeletedRows& rows);
bool Decode(std::string_view bytes, DeletedRows* rows);

}  // namespace topicdb::columnar
