#include "rocks/log/log_reader.h"

#include <algorithm>
#include <vector>

namespace topicdb::rocks {

namespace {

constexpr std::size_t kSectorBytes = 512;
// Up to this many zeros at an end of a piece may well be its content.
constexpr std::size_t kChanceZerosMax = 2;

bool AreZeros(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

// TopicDB recycles no log, and RocksDB 9.10 would read such a record again and again forever.
bool IsOfRecycledLog(unsigned char type) { return (type >= 5 && type <= 8) || type == 11; }

bool IsWholePiece(std::string_view header, std::string_view rest) {
  const auto [checksum, length, type] = ParsePieceHeader(header);
  return !IsOfRecycledLog(type) && length <= rest.size() &&
         PieceChecksum(header.substr(kPieceTypeAt), rest.substr(0, length)) == checksum;
}

}  // namespace

LogReader::LogReader(const std::string& path, BrokenHeaders broken)
    : broken_(broken), file_(path, std::ios::binary) {}

LogStep LogReader::Next() {
  bool is_within = false;
  while (true) {
    const Piece piece = NextPiece();
    if (!is_within) record_begin_ = piece_begin();
    switch (piece) {
      case Piece::kEnd:
        return LogStep::kEnd;
      case Piece::kZeros:
        // RocksDB accepts a record that the end of the file cuts off, but not one that continues
        // with zeros.
        return is_within ? LogStep::kLost : LogStep::kEnd;
      case Piece::kLost:
        return LogStep::kLost;
      case Piece::kDamaged:
        return LogStep::kDamaged;
      case Piece::kOther:
        continue;  // says something of the log itself
      case Piece::kFull:
      case Piece::kFirst:
        if (is_within) return LogStep::kDamaged;
        record_.clear();
        break;
      case Piece::kMiddle:
      case Piece::kLast:
        if (!is_within) return LogStep::kDamaged;
    }
    record_.append(block_, piece_ + kPieceHeaderBytes, next_ - piece_ - kPieceHeaderBytes);
    if (piece == Piece::kFull || piece == Piece::kLast) return LogStep::kRecord;
    is_within = true;
  }
}

// Believes the length of the broken piece if what follows it is whole. Otherwise leaves out the
// rest of the block: a search for something whole in it could take the content of a message for a
// record.
void LogReader::SkipBroken() {
  const auto is_whole_at = [&](std::size_t begin) {
    return begin + kPieceHeaderBytes <= block_.size() &&
           IsWhole(begin, std::string_view(block_).substr(begin, kPieceHeaderBytes));
  };
  if (block_.size() < piece_ + kPieceHeaderBytes) return;
  const PieceHeader header = ParsePieceHeader(std::string_view(block_).substr(piece_));
  const std::size_t end = piece_ + kPieceHeaderBytes + header.length;
  if (is_whole_at(piece_)) {  // the record before it is broken
    const bool begins_record = header.type == kWholeRecord || header.type == kFirstOfRecord;
    next_ = begins_record ? piece_ : end;
  } else {
    next_ = is_whole_at(end) ? end : block_.size();
  }
}

LogReader::Piece LogReader::NextPiece() {
  if (block_.size() < next_ + kPieceHeaderBytes) {
    const bool is_end = block_.size() < kLogBlockBytes && !block_.empty();
    if (is_end || !LoadBlock()) {
      piece_ = next_;
      return Piece::kEnd;
    }
  }
  piece_ = next_;
  if (block_.size() < piece_ + kPieceHeaderBytes) return Piece::kEnd;
  const std::string_view bytes = std::string_view(block_).substr(piece_, kPieceHeaderBytes);
  const PieceHeader header = ParsePieceHeader(bytes);
  if (header.checksum == 0 && header.length == 0 && header.type == 0) {
    return OnlyZerosFollow() ? Piece::kZeros : Piece::kLost;
  }
  if (IsWhole(piece_, bytes)) return TakeWhole(header);
  const std::optional<std::string> written = WholeButForABit();
  if (!written.has_value()) return WhatIsBroken(header);
  if (broken_ == BrokenHeaders::kReport) return Piece::kDamaged;
  if (!mended_at_.has_value()) mended_at_ = piece_begin();
  block_.replace(piece_, kPieceHeaderBytes, *written);
  return TakeWhole(ParsePieceHeader(*written));
}

LogReader::Piece LogReader::TakeWhole(const PieceHeader& header) {
  next_ = piece_ + kPieceHeaderBytes + header.length;
  switch (header.type) {
    case 0:
      return Piece::kDamaged;
    case kWholeRecord:
      return Piece::kFull;
    case kFirstOfRecord:
      return Piece::kFirst;
    case kMiddleOfRecord:
      return Piece::kMiddle;
    case kLastOfRecord:
      return Piece::kLast;
    default:
      return Piece::kOther;
  }
}

LogReader::Piece LogReader::WhatIsBroken(const PieceHeader& header) const {
  if (IsOfRecycledLog(header.type)) return Piece::kDamaged;
  const std::size_t end = piece_ + kPieceHeaderBytes + header.length;
  // The end of a file that was being written may be cut off. A piece that is longer than a full
  // block can hold is not such an end.
  const bool may_be_cut_off = block_.size() < kLogBlockBytes && end <= kLogBlockBytes;
  if (end > block_.size() && may_be_cut_off) return Piece::kEnd;
  return HasLostSector(piece_, std::min(end, block_.size())) ? Piece::kLost : Piece::kDamaged;
}

bool LogReader::IsWhole(std::size_t begin, std::string_view header) const {
  return IsWholePiece(header, std::string_view(block_).substr(begin + kPieceHeaderBytes));
}

// No checksum covers the length. If one bit of it is flipped, that looks like an end that is cut
// off, and RocksDB leaves out what follows without a word. Once in 70 million times, a piece that
// is really cut off looks like one with a flipped bit.
std::optional<std::string> LogReader::WholeButForABit() const {
  std::string header = block_.substr(piece_, kPieceHeaderBytes);
  for (char& byte : header) {
    const char found = byte;
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(found ^ (1 << bit));
      if (IsWhole(piece_, header)) return header;
    }
    byte = found;
  }
  return std::nullopt;
}

bool LogReader::LoadBlock() {
  block_begin_ += block_.size();
  block_.resize(kLogBlockBytes);
  file_.read(block_.data(), kLogBlockBytes);
  block_.resize(static_cast<std::size_t>(file_.gcount()));
  next_ = 0;
  return !block_.empty();
}

bool LogReader::OnlyZerosFollow() {
  if (!AreZeros(std::string_view(block_).substr(piece_))) return false;
  std::string more(kLogBlockBytes, '\0');
  while (file_.read(more.data(), kLogBlockBytes), file_.gcount() > 0) {
    if (!AreZeros(std::string_view(more).substr(0, static_cast<std::size_t>(file_.gcount())))) {
      return false;
    }
  }
  return true;
}

// A sector that was never written has zeros from the beginning of the piece, or of the sector, to
// the end of the sector. If a sector has only a byte or two of the piece, its first or its last,
// they may be zeros that were written. If there is one such sector and no other with zeros, it
// counts as lost only if other bytes there would make the piece whole.
bool LogReader::HasLostSector(std::size_t begin, std::size_t end) const {
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> doubtful;
  while (begin < end) {
    const std::size_t next = (begin / kSectorBytes + 1) * kSectorBytes;
    if (AreZeros(std::string_view(block_).substr(begin, next - begin))) {
      const Range zeros{begin, std::min(next, end)};
      if (zeros.end - zeros.begin > kChanceZerosMax) return true;
      doubtful.push_back(zeros);
    }
    begin = next;
  }
  if (doubtful.size() != 1) return !doubtful.empty();
  return IsWholeWithOthersIn(doubtful.front().begin, doubtful.front().end);
}

bool LogReader::IsWholeWithOthersIn(std::size_t begin, std::size_t end) const {
  std::string piece = block_.substr(piece_);
  const std::uint32_t variants = 1U << (8 * (end - begin));
  for (std::uint32_t variant = 1; variant < variants; ++variant) {
    for (std::size_t i = begin; i < end; ++i) {
      piece[i - piece_] = static_cast<char>(variant >> (8 * (i - begin)));
    }
    const std::string_view bytes = piece;
    if (IsWholePiece(bytes.substr(0, kPieceHeaderBytes), bytes.substr(kPieceHeaderBytes))) {
      return true;
    }
  }
  return false;
}

}  // namespace topicdb::rocks
