#include "segment/segment_recovery.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/file/file.h"
#include "base/file/files.h"

namespace topicdb {

namespace {

// Does the work of one call of FindSegments, which makes and destroys it. Add looks at the segments
// by their numbers. Not thread-safe.
class Finder {
 public:
  Finder(const SegmentLogOptions& options, const std::optional<LogEnd>& known_end, bool look_only)
      : options_(options), format_(*options.format), known_end_(known_end), look_only_(look_only) {}

  Result<FoundSegments> Run() {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> numbers, ListNumbers());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      TOPICDB_RETURN_IF_ERROR(Add(numbers[i], i + 1 == numbers.size()));
    }
    if (known_end_.has_value() && known_end_->segment > 0) {
      NoteLoss(known_end_->segment, known_end_->end.sequence);
      found_.next_number = std::max(found_.next_number, known_end_->segment + 1);
    }
    return std::move(found_);
  }

 private:
  // Returns the numbers of the segment files, sorted.
  Result<std::vector<std::uint64_t>> ListNumbers() const {
    TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(options_.directory));
    std::vector<std::uint64_t> numbers;
    for (const std::string& name : names) {
      if (const auto number = format_.NumberOf(name); number.has_value()) {
        numbers.push_back(*number);
      }
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  // Looks at one segment, and adds it to what was found. `last` says whether it is the last one.
  Status Add(std::uint64_t number, bool last) {
    SegmentState state;
    state.path = options_.directory + "/" + format_.FileName(number);
    TOPICDB_ASSIGN_OR_RETURN(const auto file, File::OpenForReading(state.path));
    std::string header(format_.header_bytes(), '\0');
    TOPICDB_ASSIGN_OR_RETURN(const std::size_t count,
                             file->ReadAt(0, header.data(), header.size()));
    header.resize(count);
    NoteMissing(number);
    if (last && count < format_.header_bytes()) return Discard(state.path, number);
    found_.next_number = number + 1;
    auto identity = format_.DecodeHeader(header, number);
    if (identity.status().code() == Code::kSchema) {  // nothing is wrong with it
      return identity.status().WithContext(state.path);
    }
    bool headless = identity.status().code() == Code::kCorruption;
    if (headless) {
      TOPICDB_ASSIGN_OR_RETURN(const auto inferred, InferIdentity(file, number));
      headless = inferred.has_value();
      if (headless) {
        found_.damage.push_back(
            {state.path, identity.status().message() + "; its items are read without it", 0, 0});
        identity = *inferred;
      }
    }
    if (identity.ok() && options_.queue_id != QueueId{} &&
        identity->queue_id != options_.queue_id) {
      identity = Corruption("it belongs to another queue");
    }
    if (!identity.ok()) return SetAside(state.path, identity.status().message());
    state.identity = *identity;
    NoteLoss(number - 1, identity->previous_end);
    TOPICDB_RETURN_IF_ERROR(FindEnd(*file, last, headless, &state));
    const bool empty = state.end.sequence == state.identity.first_sequence;
    if (empty && state.sealed && last && !look_only_) return Discard(state.path, number);
    Count(&state);
    found_.previous_end = std::max(state.end.sequence, reported_end_);
    found_.segments.push_back(std::move(state));
    return Status::Ok();
  }

  // Finds out what the damaged header of a segment said. Frames and footer have checksums of their
  // own, which depend on the number of the segment and the id of the queue, and they say which
  // items they have. Returns nothing if there is no whole frame.
  Result<std::optional<SegmentIdentity>> InferIdentity(const std::shared_ptr<const File>& file,
                                                       std::uint64_t number) const {
    SegmentIdentity identity{number, 0, 0, options_.queue_id};
    TOPICDB_ASSIGN_OR_RETURN(auto inferred, InferNumbers(file, identity));
    if (inferred.has_value()) return inferred;
    identity.weighed = true;
    return InferNumbers(file, identity);
  }

  // Does what InferIdentity does, for a segment whose items have weights, or do not.
  Result<std::optional<SegmentIdentity>> InferNumbers(const std::shared_ptr<const File>& file,
                                                      SegmentIdentity identity) const {
    TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t size, file->Size());
    const auto footer = ReadFooter(*file, size, identity);
    bool complete = footer.has_value();
    if (footer.has_value()) {
      identity.first_sequence = footer->first_sequence;
    } else {
      SegmentReader reader(file, format_, identity);
      TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, reader.Next({size, 0}));
      if (event != ReadEvent::kLost || reader.sequence() == 0) {
        return std::optional<SegmentIdentity>();
      }
      identity.first_sequence = reader.sequence();
      complete = reader.lost().bytes == 0;
    }
    // If the segment has all its items and follows the one before it, a gap between the two has
    // only numbers that were never given to an item.
    const bool follows =
        found_.segments.empty() || found_.segments.back().identity.number + 1 == identity.number;
    identity.previous_end = complete && follows ? found_.previous_end : identity.first_sequence;
    return std::optional(identity);
  }

  // Drops the last segment, because a process ended before it wrote items there. If the segment has
  // lost its items instead, known_end_ tells that, provided the queue was closed.
  Status Discard(const std::string& path, std::uint64_t number) {
    found_.next_number = number;
    return look_only_ ? Status::Ok() : RemoveFile(path);
  }

  // Counts what is in the segments before this one.
  void Count(SegmentState* state) const {
    if (found_.segments.empty()) return;
    const SegmentState& before = found_.segments.back();
    state->weight_before = before.weight_before + before.end.weight;
    state->items_before =
        before.items_before + before.end.sequence - before.identity.first_sequence;
  }

  // Reports the segments before `number` that are missing. Only the names of the files tell that if
  // frames have no numbers.
  void NoteMissing(std::uint64_t number) {
    if (format_.numbers_items() || found_.segments.empty()) return;
    for (std::uint64_t missing = found_.next_number; missing < number; ++missing) {
      found_.damage.push_back({options_.directory + "/" + format_.FileName(missing),
                               "is missing; how many items it had is not known", 0, 0});
    }
  }

  // Reports items as lost if fewer than all before `end_sequence` were found. Segment `number`
  // should have had the last of them.
  void NoteLoss(std::uint64_t number, std::uint64_t end_sequence) {
    // Nothing is known of items before the first segment: they may have been freed.
    const bool set_aside = std::exchange(set_aside_, false);
    if (found_.segments.empty() || end_sequence <= found_.previous_end) return;
    const std::uint64_t begin = found_.previous_end;
    if (set_aside) {
      found_.damage.back().first_sequence = begin;
      found_.damage.back().end_sequence = end_sequence;
    } else {
      const std::string path = options_.directory + "/" + format_.FileName(number);
      found_.damage.push_back({path, "is missing, or shorter than it was", begin, end_sequence});
    }
    found_.previous_end = end_sequence;
  }

  // Renames a file that is not a segment of this log, and reports it.
  Status SetAside(const std::string& path, const std::string& why) {
    const std::string aside = path + ".damaged";
    found_.damage.push_back({path, why + "; renamed to " + aside, 0, 0});
    set_aside_ = true;
    if (look_only_) return Status::Ok();
    if (std::rename(path.c_str(), aside.c_str()) != 0) {
      return ErrnoFault("renaming", path, errno);
    }
    return SyncDirectory(options_.directory);
  }

  // Finds out where the items of a segment end. Seals the segment, unless appends may continue it.
  Status FindEnd(const File& file, bool last, bool headless, SegmentState* state) {
    TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t size, file.Size());
    if (const auto footer = ReadFooter(file, size, state->identity); footer.has_value()) {
      state->end = {footer->frames_end, footer->end_sequence, footer->payload_bytes,
                    WeightOr(*state, footer->weight, footer->frames_end)};
      state->sealed = true;
      return Status::Ok();
    }
    const bool known = last && known_end_.has_value() &&
                       known_end_->segment == state->identity.number &&
                       known_end_->end.offset == size;
    if (known) {
      state->end = known_end_->end;
      state->end.weight = WeightOr(*state, state->end.weight, state->end.offset);
      if (!headless) return Status::Ok();
    } else {
      TOPICDB_RETURN_IF_ERROR(Recover(size, state));
    }
    state->sealed = true;
    // A format without footers has other writers, which leave such files as they are.
    if (look_only_ || format_.footer_bytes() == 0) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(const auto writer,
                             SegmentWriter::Continue(state->path, format_, state->identity,
                                                     state->end, /*reserve_bytes=*/0));
    TOPICDB_RETURN_IF_ERROR(writer->Seal());
    return writer->file()->Sync();
  }

  // Returns `weight`, or the bytes of frames up to `offset` if the segment has no weights.
  std::uint64_t WeightOr(const SegmentState& state, std::uint64_t weight,
                         std::uint64_t offset) const {
    return state.identity.weighed ? weight : offset - format_.header_bytes();
  }

  // Returns the footer at the end of a file of `size` bytes, or nothing if there is none.
  std::optional<SegmentFooter> ReadFooter(const File& file, std::uint64_t size,
                                          const SegmentIdentity& identity) const {
    const std::size_t bytes = format_.footer_bytes();
    if (bytes == 0 || size < format_.header_bytes() + bytes) return std::nullopt;
    std::string footer_bytes(bytes, '\0');
    const auto count = file.ReadAt(size - bytes, footer_bytes.data(), bytes);
    if (!count.ok() || *count != bytes) return std::nullopt;
    return format_.DecodeFooter(identity, size - bytes, footer_bytes);
  }

  // Reads a segment to find where its last whole append ends, and reports what is behind that.
  Status Recover(std::uint64_t size, SegmentState* state) {
    TOPICDB_ASSIGN_OR_RETURN(const auto file, File::OpenForReading(state->path));
    SegmentReader reader(file, format_, state->identity);
    const ReadLimit limit{size, 0};
    state->end = {format_.header_bytes(), state->identity.first_sequence, 0, 0};
    std::uint64_t payload_bytes = 0;
    std::optional<LogDamage> tail;  // damage that no whole frame follows so far
    while (true) {
      TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, reader.Next(limit));
      if (event == ReadEvent::kEnd) break;
      if (event == ReadEvent::kLost) {
        const LostItems& lost = reader.lost();
        if (!tail.has_value()) tail = LogDamage{state->path, "", lost.first_sequence, 0};
        tail->end_sequence = lost.end_sequence;
        continue;
      }
      tail.reset();  // frames follow the damage, so readers will report it
      for (const std::string_view item : reader.block().items) payload_bytes += item.size();
      if (reader.block().continues) continue;
      state->end = {reader.offset(), reader.sequence(), payload_bytes,
                    WeightOr(*state, reader.block().weight_behind(), reader.offset())};
    }
    const std::uint64_t torn = size - state->end.offset;
    if (torn == 0) return Status::Ok();
    if (!tail.has_value()) tail = LogDamage{state->path, "", 0, 0};
    tail->what = "was not written to its end; its last " + std::to_string(torn) +
                 " bytes are no whole append";
    found_.damage.push_back(*tail);
    reported_end_ = tail->end_sequence;
    return Status::Ok();
  }

  const SegmentLogOptions& options_;
  const SegmentFormat& format_;
  const std::optional<LogEnd>& known_end_;
  const bool look_only_;
  FoundSegments found_;
  bool set_aside_ = false;          // a file was set aside since the last NoteLoss
  std::uint64_t reported_end_ = 0;  // losses of items before this number were reported
};

}  // namespace

Result<FoundSegments> FindSegments(const SegmentLogOptions& options,
                                   const std::optional<LogEnd>& known_end, bool look_only) {
  return Finder(options, known_end, look_only).Run();
}

}  // namespace topicdb
