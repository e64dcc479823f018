#include "segment/segment_reader.h"

#include <algorithm>

namespace topicdb {

SegmentReader::SegmentReader(std::shared_ptr<const File> file, const SegmentFormat& format,
                             const SegmentIdentity& identity, std::size_t window_bytes)
    : file_(std::move(file)),
      format_(format),
      identity_(identity),
      window_bytes_(window_bytes),
      offset_(format.header_bytes()),
      sequence_(identity.first_sequence) {}

void SegmentReader::Seek(std::uint64_t offset, std::uint64_t sequence) {
  offset_ = offset;
  sequence_ = sequence;
}

std::string_view SegmentReader::Rest() const {
  if (window_ == nullptr || offset_ < window_->offset) return {};
  const std::uint64_t skip = offset_ - window_->offset;
  if (skip >= window_->size) return {};
  return {window_->bytes.get() + skip, window_->size - static_cast<std::size_t>(skip)};
}

Status SegmentReader::Fill(std::size_t size, std::uint64_t limit_offset) {
  size = static_cast<std::size_t>(std::min<std::uint64_t>(size, limit_offset - offset_));
  const std::string_view rest = Rest();
  if (rest.size() >= size) return Status::Ok();
  const bool fits = window_ != nullptr && offset_ >= window_->offset &&
                    offset_ - window_->offset <= window_->size &&
                    offset_ - window_->offset + size <= window_->capacity;
  if (!fits) {
    auto next = std::make_shared<SegmentWindow>(std::max(size, window_bytes_));
    next->offset = offset_;
    rest.copy(next->bytes.get(), rest.size());
    next->size = rest.size();
    window_ = std::move(next);
    window_owner_ = window_;
  }
  // Reads behind the bytes that are there. No item refers to that part of the window yet.
  const std::uint64_t from = window_->offset + window_->size;
  const std::size_t room = window_->capacity - window_->size;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(room, limit_offset - from));
  TOPICDB_ASSIGN_OR_RETURN(const std::size_t count,
                           file_->ReadAt(from, window_->bytes.get() + window_->size, wanted));
  window_->size += count;
  return Status::Ok();
}

Result<Parsed> SegmentReader::ParseHere(std::uint64_t limit_offset) {
  std::size_t wanted = 1;
  while (true) {
    TOPICDB_RETURN_IF_ERROR(Fill(wanted, limit_offset));
    const Parsed parsed = format_.Parse(identity_, offset_, sequence_, Rest(), &block_);
    if (parsed.found != Found::kShort) return parsed;
    // The frame is cut off: by the limit, or because the file is shorter than it was.
    if (offset_ + parsed.bytes > limit_offset || Rest().size() >= parsed.bytes ||
        (wanted == parsed.bytes && Rest().size() < wanted)) {
      return Parsed{};
    }
    wanted = static_cast<std::size_t>(parsed.bytes);
  }
}

ReadEvent SegmentReader::Lose(std::uint64_t end_sequence, std::uint64_t offset) {
  lost_ = {sequence_, std::max(sequence_, end_sequence), offset_, offset - offset_};
  sequence_ = lost_.end_sequence;
  offset_ = offset;
  return ReadEvent::kLost;
}

Status SegmentReader::Resynchronise(const ReadLimit& limit) {
  if (!format_.numbers_items()) ++sequence_;
  while (offset_ < limit.offset) {
    TOPICDB_RETURN_IF_ERROR(Fill(kWindowBytes / 2, limit.offset));
    const std::string_view rest = Rest();
    if (rest.empty()) break;  // the file is shorter than it was
    offset_ += format_.NextCandidate(offset_, rest);
    if (offset_ >= limit.offset) break;
    TOPICDB_ASSIGN_OR_RETURN(const Parsed parsed, ParseHere(limit.offset));
    const std::uint64_t first =
        parsed.found == Found::kBlock ? block_.first_sequence : parsed.first_sequence;
    const bool valid = parsed.found == Found::kBlock || parsed.found == Found::kDamaged;
    if (valid && first >= sequence_) return Status::Ok();
  }
  offset_ = limit.offset;
  return Status::Ok();
}

Result<ReadEvent> SegmentReader::Next(const ReadLimit& limit) {
  if (offset_ >= limit.offset) {
    return sequence_ < limit.sequence ? Lose(limit.sequence, offset_) : ReadEvent::kEnd;
  }
  TOPICDB_ASSIGN_OR_RETURN(const Parsed parsed, ParseHere(limit.offset));
  if (parsed.found == Found::kBlock && block_.first_sequence == sequence_) {
    offset_ = block_.end_offset;
    sequence_ = block_.end_sequence();
    return ReadEvent::kBlock;
  }
  if (parsed.found == Found::kBlock && block_.first_sequence > sequence_) {
    return Lose(block_.first_sequence, offset_);
  }
  if (parsed.found == Found::kDamaged && parsed.first_sequence == sequence_) {
    return Lose(parsed.first_sequence + parsed.items, offset_ + parsed.bytes);
  }
  const std::uint64_t begin = offset_;
  const std::uint64_t begin_sequence = sequence_;
  TOPICDB_RETURN_IF_ERROR(Resynchronise(limit));
  const std::uint64_t end = std::exchange(offset_, begin);
  // The number of the frame that follows tells how many items are lost.
  std::uint64_t next_sequence = limit.sequence;
  if (end < limit.offset) {
    offset_ = end;
    TOPICDB_ASSIGN_OR_RETURN(const Parsed next, ParseHere(limit.offset));
    next_sequence = next.found == Found::kBlock ? block_.first_sequence : next.first_sequence;
    offset_ = begin;
  }
  next_sequence = std::max(next_sequence, sequence_);
  sequence_ = begin_sequence;
  return Lose(next_sequence, end);
}

}  // namespace topicdb
