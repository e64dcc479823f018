#include "rocks/log/log_mending.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "base/bytes/coding.h"
#include "base/file/files.h"
#include "rocks/log/log_files.h"
#include "rocks/log/log_format.h"
#include "rocks/log/log_reader.h"

namespace topicdb::rocks {

namespace {

// Appends a record to the bytes of a log, in as many pieces as it takes.
void AppendRecord(std::string_view record, std::string* log) {
  bool is_first = true;
  while (true) {
    std::size_t room = kLogBlockBytes - log->size() % kLogBlockBytes;
    if (room < kPieceHeaderBytes) {
      log->append(room, '\0');
      room = kLogBlockBytes;
    }
    const std::string_view payload = record.substr(0, room - kPieceHeaderBytes);
    record.remove_prefix(payload.size());
    const bool is_last = record.empty();
    const char type = static_cast<char>(is_last ? (is_first ? kWholeRecord : kLastOfRecord)
                                                : (is_first ? kFirstOfRecord : kMiddleOfRecord));
    AppendLittle(log, PieceChecksum({&type, 1}, payload));
    AppendLittle(log, static_cast<std::uint16_t>(payload.size()));
    log->push_back(type);
    log->append(payload);
    if (is_last) return;
    is_first = false;
  }
}

// A log, read around its damage.
struct Mended {
  std::optional<std::uint64_t> damaged_at;
  bool has_lost = false;
  std::string log;  // the bytes of the log without the damage
};

// Reads a log around its damage, and calls take(record) for each whole record.
Mended ReadBroken(const std::string& path, const std::function<void(std::string_view)>& take) {
  LogReader log(path, LogReader::BrokenHeaders::kMend);
  Mended mended;
  for (LogStep step = log.Next(); step != LogStep::kEnd; step = log.Next()) {
    if (step == LogStep::kRecord) {
      take(log.record());
      AppendRecord(log.record(), &mended.log);
      continue;
    }
    if (!mended.has_lost) mended.damaged_at = log.piece_begin();
    mended.has_lost = true;
    log.SkipBroken();
  }
  if (log.mended_at().has_value()) {
    mended.damaged_at = std::min(*log.mended_at(), mended.damaged_at.value_or(*log.mended_at()));
  }
  return mended;
}

MendedLog Describe(const std::string& path, const Mended& mended) {
  return {path.substr(path.rfind('/') + 1), *mended.damaged_at, mended.has_lost};
}

}  // namespace

Result<std::vector<MendedLog>> MendLogs(const std::string& directory) {
  std::vector<MendedLog> logs;
  std::uint64_t needed_from = 0;
  const std::string manifest = ManifestOf(directory);
  const Mended edits = ReadBroken(manifest, [&](std::string_view edit) {
    needed_from = std::max(needed_from, NumbersOf(edit).logs_needed_from);
  });
  // A manifest that has lost edits stays as it is. Nothing in a mended one would tell that edits
  // are missing, so RocksDB's repair must make another one.
  if (edits.damaged_at.has_value() && !edits.has_lost) {
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(manifest, edits.log));
    logs.push_back(Describe(manifest, edits));
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto paths, WriteAheadLogs(directory, needed_from));
  for (const std::string& path : paths) {
    const Mended mended = ReadBroken(path, [](std::string_view) {});
    if (!mended.damaged_at.has_value()) continue;
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(path, mended.log));
    logs.push_back(Describe(path, mended));
  }
  return logs;
}

}  // namespace topicdb::rocks
