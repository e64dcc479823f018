// Reads the records of RocksDB's logs, and says where and how a record is broken.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "rocks/log/log_format.h"

namespace topicdb::rocks {

// What one step of a LogReader found.
enum class LogStep {
  kRecord,   // a whole record
  kEnd,      // the end of the file, or nothing but zeros to it; the last record may be cut off
  kLost,     // a record with a sector of zeros in it: it was never written
  kDamaged,  // a record that is broken in another way
};

// Reads the records of one log, whatever pieces they are stored in. Not thread-safe, but the file
// may grow meanwhile.
class LogReader {
 public:
  // What to do with a header that would be whole with one bit flipped.
  enum class BrokenHeaders { kReport, kMend };

  explicit LogReader(const std::string& path, BrokenHeaders broken = BrokenHeaders::kReport);
  bool is_open() const { return file_.is_open(); }

  // Reads the next record. After kLost or kDamaged, the caller must call SkipBroken or stop.
  LogStep Next();
  // After a broken record, moves to what is whole behind it.
  void SkipBroken();

  // Return where in the file the record of the last step begins, and where its broken piece begins.
  std::uint64_t record_begin() const { return record_begin_; }
  std::uint64_t piece_begin() const { return block_begin_ + piece_; }
  std::string_view record() const { return record_; }
  // Returns where the first mended header is, if one was mended.
  std::optional<std::uint64_t> mended_at() const { return mended_at_; }

 private:
  enum class Piece { kFull, kFirst, kMiddle, kLast, kOther, kEnd, kZeros, kLost, kDamaged };

  // Finds the next piece of the block, or of the next block, and says what it is.
  Piece NextPiece();
  // Loads the next block. Returns false at the end of the file.
  bool LoadBlock();
  // Returns whether the piece at `begin` of the block would be whole if it had this header.
  bool IsWhole(std::size_t begin, std::string_view header) const;
  // Returns a header that makes the piece whole and differs from its own in one bit, if any does.
  std::optional<std::string> WholeButForABit() const;
  // Moves behind a whole piece, and returns what it is.
  Piece TakeWhole(const PieceHeader& header);
  // Returns in which way a piece is broken. REQUIRES: it is not whole
  Piece WhatIsBroken(const PieceHeader& header) const;
  // Returns whether there are only zeros from the piece to the end of the file.
  bool OnlyZerosFollow();
  // Returns whether a sector of [begin, end) of the block was never written.
  bool HasLostSector(std::size_t begin, std::size_t end) const;
  // Returns whether the piece would be whole with other bytes in [begin, end).
  bool IsWholeWithOthersIn(std::size_t begin, std::size_t end) const;

  const BrokenHeaders broken_;
  std::ifstream file_;
  std::string block_;
  std::uint64_t block_begin_ = 0;
  std::size_t piece_ = 0;  // where the piece begins in the block
  std::size_t next_ = 0;   // where the next piece begins
  std::uint64_t record_begin_ = 0;
  std::string record_;
  std::optional<std::uint64_t> mended_at_;
};

}  // namespace topicdb::rocks
