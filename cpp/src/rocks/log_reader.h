// Reads the records of RocksDB's logs (db/log_format.h) and says where one is broken, and how.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace topicdb::rocks {

// What one step of a LogReader found.
enum class LogStep {
  kRecord,   // a whole record
  kEnd,      // the end of the file, or nothing but zeros to it; the last record may be cut off
  kLost,     // a record with a sector of zeros in it: it was never written
  kDamaged,  // a record that is broken otherwise
};

// The records of one log, whatever pieces they are stored in. The file may grow meanwhile.
class LogReader {
 public:
  // Bytes at the end of a record that `tail` gives.
  static constexpr std::size_t kTailBytes = 32;

  explicit LogReader(const std::string& path);
  bool is_open() const { return file_.is_open(); }

  LogStep Next();
  // Where the record of the last step begins in the file, and where the broken piece of it does.
  std::uint64_t record_begin() const { return record_begin_; }
  std::uint64_t piece_begin() const { return block_begin_ + piece_; }
  // The last bytes of the record.
  std::string_view tail() const { return tail_; }

 private:
  enum class Piece { kFull, kFirst, kMiddle, kLast, kOther, kEnd, kZeros, kLost, kDamaged };

  Piece NextPiece();
  bool LoadBlock();
  // Of a piece that is not whole, and would end at `end` of the block.
  Piece WhatIsBroken(std::size_t end) const;
  bool IsWhole(std::string_view header) const;
  bool IsWholeButForABit() const;  // of its header
  bool OnlyZerosFollow();
  bool HasLostSector(std::size_t begin, std::size_t end) const;

  std::ifstream file_;
  std::string block_;
  std::uint64_t block_begin_ = 0;
  std::size_t piece_ = 0;  // where the piece begins in the block
  std::size_t next_ = 0;   // and the next one
  std::uint64_t record_begin_ = 0;
  std::string tail_;
};

}  // namespace topicdb::rocks
