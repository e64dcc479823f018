#include "store/job/job_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <set>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "base/clock.h"
#include "base/file/system_calls.h"

namespace topicdb {

namespace {

constexpr std::size_t kTimeDigits = 20;  // of a file's name
constexpr std::string_view kIntentMagic = "TDBINTN\n";
constexpr std::string_view kOutcomeMagic = "TDBOUTC\n";
constexpr std::uint8_t kVersion = 1;
constexpr std::string_view kIntentSuffix = ".intent";
constexpr std::string_view kOutcomeMark = ".shard-";
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kIntentBytesMax = std::size_t{256} << 20;
constexpr std::size_t kOutcomeBytesMax = 4'096;
constexpr std::chrono::microseconds kAppliedAge = std::chrono::minutes(1);
constexpr std::chrono::microseconds kOrphanAge = std::chrono::hours(6);

std::string Begin(std::string_view magic) {
  std::string bytes(magic);
  bytes.push_back(static_cast<char>(kVersion));
  return bytes;
}

std::string IntentPath(const std::string& path, const JobIntent& intent) {
  return JobsDirectory(path) + "/" + intent.name + std::string(kIntentSuffix);
}

std::string OutcomePath(const std::string& path, const JobIntent& intent, std::uint32_t shard) {
  char number[16];
  std::snprintf(number, sizeof number, "%04u", shard);
  return JobsDirectory(path) + "/" + intent.name + std::string(kOutcomeMark) + number;
}

// Returns when a file, or anything in a directory, was last changed: to the second, and 1970 if
// there is no such file.
WallTime LastChange(const std::string& path) {
  const auto change_of = [](const std::string& file) {
    struct stat info{};
    const bool exists = stat(file.c_str(), &info) == 0;
    return WallTime(std::chrono::seconds(exists ? ChangeTime(info).tv_sec : 0));
  };
  WallTime last = change_of(path);
  const auto names = ListDirectory(path);
  if (!names.ok()) return last;
  for (const std::string& name : *names) {
    last = std::max(last, change_of(path + "/" + name));
  }
  return last;
}

}  // namespace

std::string JobsDirectory(const std::string& path) { return path + "/jobs"; }

std::string JobDirectory(const std::string& path, const std::string& job) {
  return JobsDirectory(path) + "/" + job;
}

Status CheckJobName(const std::string& job) {
  const bool is_name = !job.empty() && job.size() <= kNameBytesMax && job.front() != '.' &&
                       std::all_of(job.begin(), job.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                       });
  const bool is_free =
      job.find(kIntentSuffix) == std::string::npos && job.find(kOutcomeMark) == std::string::npos;
  if (is_name && is_free) return Status::Ok();
  return InvalidArgument("job: expected 1 to 128 letters, digits, '-', '_' or '.', got '" + job +
                         "'");
}

Status CheckJobCommit(const JobCommit& commit) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(commit.job));
  if (!commit.sequence.empty()) TOPICDB_RETURN_IF_ERROR(CheckJobName(commit.sequence));
  if (commit.sequence.empty() != (commit.number == 0)) {
    return InvalidArgument("number: a job of a sequence has one, from 1 on; others have none");
  }
  std::set<std::string> files;
  for (const std::string& name : commit.files) {
    if (name.empty()) continue;
    const bool is_name = name.find('/') == std::string::npos && name.ends_with(".staged");
    if (!is_name || !files.insert(name).second) {
      return InvalidArgument("files: '" + name + "' is no name of a staged file, or comes twice");
    }
  }
  return Status::Ok();
}

Result<std::string> MakeJobDirectory(const std::string& path, const std::string& job) {
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(JobsDirectory(path)));
  std::string directory = JobDirectory(path, job);
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  return directory;
}

std::string EncodeIntent(const JobIntent& intent) {
  std::string bytes = Begin(kIntentMagic);
  bytes.append(intent.database.begin(), intent.database.end());
  AppendPrefixed(&bytes, intent.job);
  AppendPrefixed(&bytes, intent.sequence);
  AppendVarint(&bytes, intent.number);
  AppendVarint(&bytes, intent.messages);
  AppendVarint(&bytes, intent.malformed);
  AppendVarint(&bytes, intent.shards.size());
  for (const std::uint32_t shard : intent.shards) AppendVarint(&bytes, shard);
  AppendVarint(&bytes, intent.files.size());
  for (const std::string& file : intent.files) AppendPrefixed(&bytes, file);
  return CloseRecord(std::move(bytes));
}

Result<JobIntent> DecodeIntent(std::string_view bytes, const std::string& path) {
  const Status damaged = Corruption(
      path +
      " is damaged: it says which messages of a job belong to the database. Restore it, or, "
      "to give up that job, remove it");
  const auto body = OpenRecord(bytes, Begin(kIntentMagic));
  if (!body.has_value()) return damaged;
  Decoder decoder(*body);
  JobIntent intent;
  decoder.Array(&intent.database);
  intent.job = decoder.Prefixed();
  intent.sequence = decoder.Prefixed();
  intent.number = decoder.Varint();
  intent.messages = decoder.Varint();
  intent.malformed = decoder.Varint();
  const std::uint64_t shards = decoder.Varint();
  for (std::uint64_t i = 0; decoder.ok() && i < shards; ++i) {
    intent.shards.push_back(static_cast<std::uint32_t>(decoder.Varint()));
  }
  const std::uint64_t files = decoder.Varint();
  for (std::uint64_t i = 0; decoder.ok() && i < files; ++i) {
    intent.files.emplace_back(decoder.Prefixed());
  }
  if (!decoder.Finished() || !CheckJobName(intent.job).ok()) return damaged;
  return intent;
}

std::string EncodeOutcome(const ShardOutcome& outcome) {
  std::string bytes = Begin(kOutcomeMagic);
  AppendVarint(&bytes, outcome.serial.value());
  bytes.push_back(static_cast<char>(outcome.repeated ? 2 : 1));
  return CloseRecord(std::move(bytes));
}

bool DecodeOutcome(std::string_view bytes, ShardOutcome* outcome) {
  const auto body = OpenRecord(bytes, Begin(kOutcomeMagic));
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  outcome->serial = Serial{decoder.Varint()};
  const auto kind = decoder.Little<std::uint8_t>();
  outcome->repeated = kind == 2;
  return decoder.Finished() && (kind == 1 || kind == 2);
}

WallTime CommittedAt(const JobIntent& intent) {
  std::int64_t time = 0;
  const char* const digits = intent.name.data();
  std::from_chars(digits, digits + std::min(kTimeDigits, intent.name.size()), time);
  return TimeAt<WallTime>(time);
}

Result<std::unique_ptr<FileLock>> LockJobs(const std::string& path,
                                           std::chrono::microseconds patience) {
  return FileLock::AcquireWithin(JobsDirectory(path) + ".lock", patience);
}

Status WriteIntent(const std::string& path, JobIntent* intent) {
  char time[kTimeDigits + 2];
  std::snprintf(time, sizeof time, "%020lld-",
                static_cast<long long>(MicrosecondsOf(ReadWallClock())));
  intent->name = time + intent->job;
  return WriteFileAtomically(IntentPath(path, *intent), EncodeIntent(*intent));
}

Result<std::vector<JobIntent>> ListIntents(const std::string& path) {
  std::vector<JobIntent> intents;
  const std::string directory = JobsDirectory(path);
  if (!IsDirectory(directory)) return intents;
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (!name.ends_with(kIntentSuffix)) continue;
    const std::string file = directory + "/" + name;
    const Result<std::string> bytes = ReadFile(file, kIntentBytesMax);
    if (!bytes.ok() && bytes.status().code() == Code::kNotFound) continue;  // applied meanwhile
    TOPICDB_RETURN_IF_ERROR(bytes.status());
    TOPICDB_ASSIGN_OR_RETURN(JobIntent intent, DecodeIntent(*bytes, file));
    intent.name = name.substr(0, name.size() - kIntentSuffix.size());
    intents.push_back(std::move(intent));
  }
  return intents;
}

Result<std::optional<ShardOutcome>> FindOutcome(const std::string& path, const JobIntent& intent,
                                                std::uint32_t shard) {
  const Result<std::string> bytes = ReadFile(OutcomePath(path, intent, shard), kOutcomeBytesMax);
  if (!bytes.ok() && bytes.status().code() == Code::kNotFound) {
    return std::optional<ShardOutcome>();
  }
  TOPICDB_RETURN_IF_ERROR(bytes.status());
  ShardOutcome outcome;
  // A shard that applies the intent again finds that it has applied it.
  if (!DecodeOutcome(*bytes, &outcome)) return std::optional<ShardOutcome>();
  return std::optional(outcome);
}

Status WriteOutcome(const std::string& path, const JobIntent& intent, std::uint32_t shard,
                    const ShardOutcome& outcome) {
  return WriteFileAtomically(OutcomePath(path, intent, shard), EncodeOutcome(outcome));
}

Result<bool> IsApplied(const std::string& path, const JobIntent& intent,
                       std::map<std::uint32_t, ShardOutcome>* outcomes) {
  for (const std::uint32_t shard : intent.shards) {
    TOPICDB_ASSIGN_OR_RETURN(const auto outcome, FindOutcome(path, intent, shard));
    if (outcome.has_value()) outcomes->emplace(shard, *outcome);
  }
  return outcomes->size() == intent.shards.size();
}

Status RemoveApplied(const std::string& path, const JobIntent& intent) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  const bool is_committed_again = std::any_of(
      intents.begin(), intents.end(),
      [&](const JobIntent& other) { return other.job == intent.job && other.name != intent.name; });
  if (!is_committed_again) {
    TOPICDB_RETURN_IF_ERROR(RemoveTree(JobDirectory(path, intent.job)));
  }
  unlink(IntentPath(path, intent).c_str());
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(JobsDirectory(path)));
  for (const std::uint32_t shard : intent.shards) {
    unlink(OutcomePath(path, intent, shard).c_str());
  }
  return Status::Ok();
}

bool HasIntent(const std::string& path, const JobIntent& intent) {
  return Exists(IntentPath(path, intent));
}

namespace {

// Removes the files of an intent that every shard has applied, but not at once: whoever committed
// the job may still want to read the outcomes.
Status SweepApplied(const std::string& path, const JobIntent& intent, WallTime now) {
  std::map<std::uint32_t, ShardOutcome> outcomes;
  TOPICDB_ASSIGN_OR_RETURN(const bool applied, IsApplied(path, intent, &outcomes));
  if (!applied) return Status::Ok();
  WallTime last;
  for (const std::uint32_t shard : intent.shards) {
    last = std::max(last, LastChange(OutcomePath(path, intent, shard)));
  }
  return last + kAppliedAge < now ? RemoveApplied(path, intent) : Status::Ok();
}

}  // namespace

Status SweepJobs(const std::string& path, WallTime now) {
  const std::string directory = JobsDirectory(path);
  if (!IsDirectory(directory)) return Status::Ok();
  const auto lock = LockJobs(path, std::chrono::microseconds(0));
  if (lock.status().code() == Code::kLocked) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(lock.status());
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  std::set<std::string> jobs;
  std::set<std::string> names;
  for (const JobIntent& intent : intents) {
    jobs.insert(intent.job);
    names.insert(intent.name);
    TOPICDB_RETURN_IF_ERROR(SweepApplied(path, intent, now));
  }
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> entries, ListDirectory(directory));
  for (const std::string& entry : entries) {
    const std::string file = directory + "/" + entry;
    if (IsDirectory(file)) {
      if (jobs.contains(entry) || LastChange(file) + kOrphanAge > now) continue;
      TOPICDB_RETURN_IF_ERROR(RemoveTree(file));
      continue;
    }
    const std::size_t mark = entry.rfind(kOutcomeMark);
    if (mark != std::string::npos && !names.contains(entry.substr(0, mark))) unlink(file.c_str());
  }
  return Status::Ok();
}

}  // namespace topicdb
