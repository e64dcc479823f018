#include "rocks/log_reader.h"

#include <algorithm>

#include "base/coding.h"
#include "base/crc32c.h"

namespace topicdb::rocks {

namespace {

// Of RocksDB's db/log_format.h: blocks of pieces, each of checksum, length, type and payload.
constexpr std::size_t kBlockBytes = 32'768;
constexpr std::size_t kHeaderBytes = 7;

constexpr std::size_t kTypeAt = 6;
constexpr std::size_t kSectorBytes = 512;

struct Header {
  std::uint32_t checksum = 0;
  std::size_t length = 0;
  unsigned char type = 0;
};

Header ParseHeader(std::string_view bytes) {
  Decoder decoder(bytes);
  Header header;
  header.checksum = decoder.Little<std::uint32_t>();
  header.length = decoder.Little<std::uint16_t>();
  header.type = decoder.Little<std::uint8_t>();
  return header;
}

// A checksum over the type and the payload, masked as RocksDB does.
std::uint32_t MaskedChecksum(std::string_view type, std::string_view payload) {
  constexpr std::uint32_t kDelta = 0xa282ead8;
  const std::uint32_t crc = Crc32c(payload, Crc32c(type));
  return ((crc >> 15) | (crc << 17)) + kDelta;
}

bool AreZeros(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

}  // namespace

LogReader::LogReader(const std::string& path) : file_(path, std::ios::binary) {}

LogStep LogReader::Next() {
  bool is_within = false;
  while (true) {
    const Piece piece = NextPiece();
    if (!is_within) record_begin_ = piece_begin();
    switch (piece) {
      case Piece::kEnd:
        return LogStep::kEnd;
      case Piece::kZeros:
        // RocksDB takes a record that the file's end cuts off, but none that goes on with zeros.
        return is_within ? LogStep::kLost : LogStep::kEnd;
      case Piece::kLost:
        return LogStep::kLost;
      case Piece::kDamaged:
        return LogStep::kDamaged;
      case Piece::kOther:
        continue;  // what RocksDB says of the log itself
      case Piece::kFull:
      case Piece::kFirst:
        if (is_within) return LogStep::kDamaged;
        tail_.clear();
        break;
      case Piece::kMiddle:
      case Piece::kLast:
        if (!is_within) return LogStep::kDamaged;
    }
    tail_.append(block_, piece_ + kHeaderBytes, next_ - piece_ - kHeaderBytes);
    tail_.erase(0, tail_.size() - std::min(tail_.size(), kTailBytes));
    if (piece == Piece::kFull || piece == Piece::kLast) return LogStep::kRecord;
    is_within = true;
  }
}

LogReader::Piece LogReader::NextPiece() {
  if (block_.size() < next_ + kHeaderBytes) {
    const bool is_end = block_.size() < kBlockBytes && !block_.empty();
    if (is_end || !LoadBlock()) {
      piece_ = next_;
      return Piece::kEnd;
    }
  }
  piece_ = next_;
  if (block_.size() < piece_ + kHeaderBytes) return Piece::kEnd;
  const std::string_view header = std::string_view(block_).substr(piece_, kHeaderBytes);
  const auto [checksum, length, type] = ParseHeader(header);
  if (checksum == 0 && length == 0 && type == 0) {
    return OnlyZerosFollow() ? Piece::kZeros : Piece::kLost;
  }
  // We recycle no log; RocksDB 9.10 would read such a record again and again for ever.
  if ((type >= 5 && type <= 8) || type == 11) return Piece::kDamaged;
  const std::size_t end = piece_ + kHeaderBytes + length;
  if (!IsWhole(header)) return WhatIsBroken(end);
  next_ = end;
  constexpr Piece kPieces[] = {Piece::kFull, Piece::kFirst, Piece::kMiddle, Piece::kLast};
  if (type >= 1 && type <= 4) return kPieces[type - 1];
  return type == 0 ? Piece::kDamaged : Piece::kOther;
}

LogReader::Piece LogReader::WhatIsBroken(std::size_t end) const {
  if (IsWholeButForABit()) return Piece::kDamaged;
  // The end of a file that was being written, unless a full block cannot hold it.
  const bool may_be_cut_off = block_.size() < kBlockBytes && end <= kBlockBytes;
  if (end > block_.size() && may_be_cut_off) return Piece::kEnd;
  return HasLostSector(piece_, std::min(end, block_.size())) ? Piece::kLost : Piece::kDamaged;
}

// Whether the block has all of the piece that this header is one of, as it was written.
bool LogReader::IsWhole(std::string_view header) const {
  const auto [checksum, length, type] = ParseHeader(header);
  const std::string_view rest = std::string_view(block_).substr(piece_ + kHeaderBytes);
  return length <= rest.size() &&
         MaskedChecksum(header.substr(kTypeAt), rest.substr(0, length)) == checksum;
}

// No checksum covers the length. If one bit of it is flipped, that looks like an end that is cut
// off, and RocksDB leaves out what follows without a word. A piece that is cut off in fact passes
// for one that a bit makes whole once in 70 million times.
bool LogReader::IsWholeButForABit() const {
  std::string header = block_.substr(piece_, kHeaderBytes);
  for (char& byte : header) {
    const char found = byte;
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(found ^ (1 << bit));
      if (IsWhole(header)) return true;
    }
    byte = found;
  }
  return false;
}

bool LogReader::LoadBlock() {
  block_begin_ += block_.size();
  block_.resize(kBlockBytes);
  file_.read(block_.data(), kBlockBytes);
  block_.resize(static_cast<std::size_t>(file_.gcount()));
  next_ = 0;
  return !block_.empty();
}

bool LogReader::OnlyZerosFollow() {
  if (!AreZeros(std::string_view(block_).substr(piece_))) return false;
  std::string more(kBlockBytes, '\0');
  while (file_.read(more.data(), kBlockBytes), file_.gcount() > 0) {
    if (!AreZeros(std::string_view(more).substr(0, static_cast<std::size_t>(file_.gcount())))) {
      return false;
    }
  }
  return true;
}

// Whether one of the sectors of [begin, end) of the block is as it was before that was written:
// zeros from there on.
bool LogReader::HasLostSector(std::size_t begin, std::size_t end) const {
  while (begin < end) {
    const std::size_t next = (begin / kSectorBytes + 1) * kSectorBytes;
    if (AreZeros(std::string_view(block_).substr(begin, next - begin))) return true;
    begin = next;
  }
  return false;
}

}  // namespace topicdb::rocks
