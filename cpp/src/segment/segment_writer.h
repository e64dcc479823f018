// Writes frames at the end of one segment file, the last of its log.
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
  std::uint64_t weight = 0;  // of the items; if they have none, the bytes of the frames
};

// Appends items to one segment file, with a buffer. The `format` must outlive it. Not thread-safe:
// the SegmentLog that owns it calls it under its mutex. After an error nothing has changed, and the
// call may be repeated.
class SegmentWriter {
 public:
  // Fewer bytes than this may wait in memory until WriteOut. More are written at once.
  static constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

  // Makes the file with its header, and reserves `reserve_bytes` of space. The caller must sync the
  // directory.
  static Result<std::unique_ptr<SegmentWriter>> Create(const std::string& path,
                                                       const SegmentFormat& format,
                                                       const SegmentIdentity& identity,
                                                       std::uint64_t reserve_bytes);
  // Continues behind `end` in a file that has no footer. Cuts off whatever is there.
  static Result<std::unique_ptr<SegmentWriter>> Continue(const std::string& path,
                                                         const SegmentFormat& format,
                                                         const SegmentIdentity& identity,
                                                         const SegmentEnd& end,
                                                         std::uint64_t reserve_bytes);

  // Appends items, which must have weights if those of the segment do. With `through`, hands them
  // and all before them to the operating system.
  Status Append(WeighedItems items, bool through);
  // Hands what is buffered to the operating system.
  Status WriteOut();
  // Calls WriteOut, then writes the footer. No Append may follow.
  Status Seal();
  // Calls WriteOut, then gives back the unused space.
  Status Finish();

  const SegmentIdentity& identity() const { return identity_; }
  // Returns the end of all items, including buffered ones.
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
  std::uint64_t written_offset_;  // the end of what was handed to the operating system
  std::string buffer_;            // the bytes from written_offset_ to end_.offset
};

}  // namespace topicdb
