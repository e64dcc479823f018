// The file COMMIT of EMQX's replayq: the text of an Erlang map, #{id => 10,segno => 1}.
// Item `id` of segment `segno` is the last one that is acknowledged.
#include <algorithm>
#include <cctype>

#include "base/bytes/decimal.h"
#include "base/file/files.h"
#include "queue/queue_files.h"

namespace topicdb {

namespace {

constexpr std::string_view kCommitFile = "COMMIT";
constexpr std::string_view kLockFile = "topicdb.lock";  // replayq has no lock and ignores this
constexpr std::size_t kCommitBytesMax = 4'096;
constexpr int kSegmentShift = 32;
constexpr std::uint64_t kIdMask = 0xffffffff;

std::string_view SkipSpaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\n"), text.size()));
}

// Returns the number behind the word `key` and "=>", or nothing if there is none.
std::optional<std::uint64_t> NumberBehind(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool in_word = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
    std::string_view rest = SkipSpaces(text.substr(at + key.size()));
    if (in_word || !rest.starts_with("=>")) continue;
    rest = SkipSpaces(rest.substr(2));
    if (const auto number = TakeDecimal(&rest); number.has_value()) return number;
  }
  return std::nullopt;
}

// Returns the number of the last item that is acknowledged, or nothing if the text does not tell
// it.
std::optional<std::uint64_t> ParseCommit(std::string_view text) {
  const auto id = NumberBehind(text, "id");
  const auto segment = NumberBehind(text, "segno");
  if (!id.has_value() || !segment.has_value() || *segment == 0 || *segment > kIdMask) {
    return std::nullopt;
  }
  return (*segment << kSegmentShift) + std::min(*id, kIdMask - 1);
}

// Returns the default cursor as COMMIT has it, or none if there is no COMMIT or nothing to read in
// it.
Result<std::vector<std::unique_ptr<Consumer>>> ReadCommit(const std::string& directory,
                                                          std::vector<LogDamage>* damage) {
  std::vector<std::unique_ptr<Consumer>> consumers;
  const std::string path = directory + "/" + std::string(kCommitFile);
  const auto text = ReadFile(path, kCommitBytesMax);
  if (!text.ok() && text.status().code() == Code::kNotFound) return consumers;
  if (!text.ok() && text.status().code() != Code::kCorruption) return text.status();
  const auto acknowledged = text.ok() ? ParseCommit(*text) : std::nullopt;
  if (!acknowledged.has_value()) {
    damage->push_back({path,
                       "says nothing that could be read: everything in the segments is "
                       "delivered again",
                       0, 0});
    return consumers;
  }
  consumers.push_back(std::make_unique<Consumer>(std::string(kDefaultCursor), *acknowledged + 1));
  return consumers;
}

// The QueueFiles of replayq's format, which stores one cursor and no record.
class ReplayqFiles : public QueueFiles {
 public:
  explicit ReplayqFiles(std::string directory) : directory_(std::move(directory)) {}

  Status Open() {
    TOPICDB_ASSIGN_OR_RETURN(lock_, FileLock::Acquire(directory_ + "/" + std::string(kLockFile)));
    return Status::Ok();
  }

  QueueFormat format() const override { return QueueFormat::kReplayq; }
  const SegmentFormat& segment_format() const override { return ReplayqSegmentFormat(); }
  const FileLock& lock() const override { return *lock_; }
  const QueueRecord& record() const override { return record_; }
  bool record_damaged() const override { return false; }
  Status WriteRecord(const QueueRecord& record) override {
    record_ = record;  // replayq stores nothing of it
    return Status::Ok();
  }

  Result<std::vector<std::unique_ptr<Consumer>>> LoadConsumers(
      std::vector<LogDamage>* damage) override {
    return ReadCommit(directory_, damage);
  }

  // Stores the low-water mark alone. Replayq could not read what was acknowledged out of order.
  Status WriteConsumer(const Consumer& consumer, bool /*sync*/) override {
    const std::uint64_t low_water = consumer.low_water();
    const std::uint64_t segment = low_water >> kSegmentShift;
    if (segment == 0 || low_water == written_) return Status::Ok();  // nothing was appended yet
    const std::string text = "#{id => " + std::to_string((low_water & kIdMask) - 1) + ",segno => " +
                             std::to_string(segment) + "}.\n";
    TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(directory_ + "/" + std::string(kCommitFile), text));
    written_ = low_water;
    return Status::Ok();
  }
  Status RemoveConsumer(const std::string& /*name*/) override { return Status::Ok(); }

 private:
  const std::string directory_;
  std::unique_ptr<FileLock> lock_;
  QueueRecord record_;
  std::uint64_t written_ = 0;
};

}  // namespace

Result<std::unique_ptr<QueueFiles>> OpenReplayqFiles(const std::string& directory) {
  auto files = std::make_unique<ReplayqFiles>(directory);
  TOPICDB_RETURN_IF_ERROR(files->Open());
  return std::unique_ptr<QueueFiles>(std::move(files));
}

bool IsReplayqWithoutSegments(const std::string& directory, const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(kLockFile)) return true;
  if (!has(kCommitFile)) return false;
  const auto text = ReadFile(directory + "/" + std::string(kCommitFile), kCommitBytesMax);
  return text.ok() && ParseCommit(*text).has_value();
}

Status ReadReplayqFiles(const std::string& directory, QueueFilesInfo* info) {
  TOPICDB_ASSIGN_OR_RETURN(info->consumers, ReadCommit(directory, &info->damage));
  return Status::Ok();
}

}  // namespace topicdb
