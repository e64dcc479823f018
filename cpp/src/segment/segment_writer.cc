#include "segment/segment_writer.h"

#include <unistd.h>

namespace topicdb {

Result<std::unique_ptr<SegmentWriter>> SegmentWriter::Create(const std::string& path,
                                                             const SegmentFormat& format,
                                                             const SegmentIdentity& identity,
                                                             std::uint64_t reserve_bytes) {
  TOPICDB_ASSIGN_OR_RETURN(auto file, File::Create(path));
  const std::string header = format.EncodeHeader(identity);
  Status status = file->Reserve(reserve_bytes);
  if (status.ok()) status = file->WriteAt(0, header);
  if (!status.ok()) {
    unlink(path.c_str());  // the next attempt must find no file in its way
    return status;
  }
  const SegmentEnd end{header.size(), identity.first_sequence, 0, 0};
  return std::unique_ptr<SegmentWriter>(new SegmentWriter(std::move(file), format, identity, end));
}

Result<std::unique_ptr<SegmentWriter>> SegmentWriter::Continue(const std::string& path,
                                                               const SegmentFormat& format,
                                                               const SegmentIdentity& identity,
                                                               const SegmentEnd& end,
                                                               std::uint64_t reserve_bytes) {
  TOPICDB_ASSIGN_OR_RETURN(auto file, File::OpenForWriting(path));
  TOPICDB_RETURN_IF_ERROR(file->Truncate(end.offset));
  TOPICDB_RETURN_IF_ERROR(file->Reserve(reserve_bytes));
  return std::unique_ptr<SegmentWriter>(new SegmentWriter(std::move(file), format, identity, end));
}

Status SegmentWriter::Append(WeighedItems items, bool through) {
  const std::size_t buffered = buffer_.size();
  items.weight_before = end_.weight;
  format_.EncodeFrames(identity_, end_.offset, end_.sequence, items, &buffer_);
  if (through || buffer_.size() >= kBufferBytes) {
    Status status = file_->WriteAt(written_offset_, buffer_);
    if (!status.ok()) {
      buffer_.resize(buffered);
      return status;
    }
    end_.offset = written_offset_ = written_offset_ + buffer_.size();
    buffer_.clear();
    if (buffer_.capacity() > 4 * kBufferBytes) buffer_ = {};  // frees the memory of a large append
  } else {
    end_.offset = written_offset_ + buffer_.size();
  }
  end_.sequence += items.items.size();
  for (const std::string_view item : items.items) end_.payload_bytes += item.size();
  end_.weight =
      identity_.weighed ? end_.weight + items.Weight() : end_.offset - format_.header_bytes();
  return Status::Ok();
}

Status SegmentWriter::WriteOut() {
  if (buffer_.empty()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(file_->WriteAt(written_offset_, buffer_));
  written_offset_ += buffer_.size();
  buffer_.clear();
  return Status::Ok();
}

Status SegmentWriter::Seal() {
  TOPICDB_RETURN_IF_ERROR(WriteOut());
  const SegmentFooter footer{identity_.first_sequence, end_.sequence, end_.payload_bytes,
                             end_.offset, end_.weight};
  TOPICDB_RETURN_IF_ERROR(file_->WriteAt(end_.offset, format_.EncodeFooter(identity_, footer)));
  return file_->Truncate(end_.offset + format_.footer_bytes());
}

Status SegmentWriter::Finish() {
  TOPICDB_RETURN_IF_ERROR(WriteOut());
  return file_->Truncate(end_.offset);
}

}  // namespace topicdb
