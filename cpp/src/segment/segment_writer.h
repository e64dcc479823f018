// Writes the frames of one segment file, its last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file/file.h"
#include "segment/segment_format.h"

namespace topicdb {

// Where the items of a segment end.
struct SegmentEnd {
  std::uint64_t offset = 0;
  std::uint64_t sequence = 0;  // after the last item
  std::uint64_t payload_bytes = 0;
};

// Not thread-safe. After an error nothing is different from before, and the call may be repeated.
class SegmentWriter {
 public:
  // What may wait in memory until WriteOut; more is written at once.
  static constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

  // Makes the file, with its header, and sets `reserve_bytes` of space aside. The caller syncs
  // the directory.
  static Result<std::unique_ptr<SegmentWriter>> Create(const std::string& path,
                                                       const SegmentFormat& format,
                                                       const SegmentIdentity& identity,
                                                       std::uint64_t reserve_bytes);
  // Goes on behind `end` in a file that has no footer; what may be there is overwritten.
  static Result<std::unique_ptr<SegmentWriter>> Continue(const std::string& path,
                                                         const SegmentFormat& format,
                                                         const SegmentIdentity& identity,
                                                         const SegmentEnd& end,
                                                         std::uint64_t reserve_bytes);

  // Adds items: with `through`, they are the operating system's afterwards, and all before them.
  Status Append(std::span<const std::string_view> items, bool through);
  // Hands what is buffered to the operating system.
  Status WriteOut();
  // WriteOut, then the footer. No Append may follow.
  Status Seal();
  // WriteOut, then gives back the space that is not used.
  Status Finish();

  const SegmentIdentity& identity() const { return identity_; }
  // Of all items, buffered ones too.
  const SegmentEnd& end() const { return end_; }
  const std::shared_ptr<File>& file() const { return file_; }

 private:
  SegmentWriter(std::shared_ptr<File> file, const SegmentFormat& format,
                const SegmentIdentity& identity, const SegmentEnd& end)
      : file_(std::move(file)),
        format_(format),
        identity_(identity),
        end_(end),
        written_offset_(end.offset) {}

  const std::shared_ptr<File> file_;
  const SegmentFormat& format_;
  const SegmentIdentity identity_;
  SegmentEnd end_;
  std::uint64_t written_offset_;
  std::string buffer_;  // from written_offset_ to end_.offset
};

}  // namespace topicdb
