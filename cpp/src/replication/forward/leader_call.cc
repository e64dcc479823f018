#include "replication/forward/leader_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/bytes/coding.h"
#include "replication/hashed_bytes.h"
#include "replication/status_bytes.h"
#include "store/job/job_files.h"

namespace topicdb::replication {

namespace {

using std::chrono::microseconds;

constexpr char kCall = 2;  // other requests between replicas have other first bytes
constexpr std::uint8_t kCallVersion = 3;
constexpr std::uint8_t kAnswerVersion = 1;

// What a commit has.
constexpr std::uint8_t kHasId = 1;
constexpr std::uint8_t kHasTransaction = 2;
// What a transaction has.
constexpr std::uint8_t kHasStart = 1;
constexpr std::uint8_t kHasGeneration = 2;
constexpr std::uint8_t kHasSerials = 4;
// What a requirement asks for.
constexpr std::uint8_t kHasValue = 1;
constexpr std::uint8_t kAnyValue = 2;

// An absent time, which no message has.
constexpr std::int64_t kNoTime = -1;

void AppendTime(std::string* out, std::optional<std::int64_t> time) {
  AppendLittle(out, static_cast<std::uint64_t>(time.value_or(kNoTime)));
}
std::optional<std::int64_t> ReadTime(Decoder* decoder) {
  const auto time = static_cast<std::int64_t>(decoder->Little<std::uint64_t>());
  return time == kNoTime ? std::nullopt : std::optional(time);
}

void AppendRange(std::string* out, const TimeRange& range) {
  AppendTime(out, range.start);
  AppendTime(out, range.end);
}
TimeRange ReadRange(Decoder* decoder) {
  const auto start = ReadTime(decoder);
  return {start, ReadTime(decoder)};
}

void AppendKeys(std::string* out, const std::vector<KeyRange>& all) {
  AppendVarint(out, all.size());
  for (const KeyRange& keys : all) {
    AppendPrefixed(out, keys.filter.text());
    AppendRange(out, keys.range);
  }
}
Result<std::vector<KeyRange>> ReadKeys(Decoder* decoder) {
  std::vector<KeyRange> all;
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    const std::string_view text = decoder->Prefixed();
    const TimeRange range = ReadRange(decoder);
    if (!decoder->ok()) break;
    TOPICDB_ASSIGN_OR_RETURN(Filter filter,
                             text.empty() ? Filter::Everything() : Filter::Parse(text));
    all.push_back({std::move(filter), range});
  }
  return all;
}

void AppendTransaction(std::string* out, const TransactionOps& ops) {
  const auto flags = static_cast<std::uint8_t>((ops.start_serial.has_value() ? kHasStart : 0) |
                                               (ops.generation.has_value() ? kHasGeneration : 0) |
                                               (ops.is_serial.empty() ? 0 : kHasSerials));
  AppendLittle(out, flags);
  if (ops.start_serial.has_value()) {
    AppendLittle(out, ops.start_serial->value());
    // The clocks of machines differ, and so does what their steady clocks count from.
    const auto open_for = std::chrono::steady_clock::now() - ops.begun;
    const auto us = std::chrono::duration_cast<microseconds>(open_for).count();
    AppendLittle(out, static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0)));
  }
  if (ops.generation.has_value()) AppendLittle(out, ops.generation->value());
  AppendKeys(out, ops.reads);
  AppendKeys(out, ops.deletes);
  AppendVarint(out, ops.requirements.size());
  for (const Requirement& requirement : ops.requirements) {
    const auto wants = static_cast<std::uint8_t>((requirement.value.has_value() ? kHasValue : 0) |
                                                 (requirement.any_value ? kAnyValue : 0));
    AppendLittle(out, wants);
    AppendPrefixed(out, requirement.topic);
    AppendTime(out, requirement.timestamp);
    if (requirement.value.has_value()) AppendPrefixed(out, *requirement.value);
  }
  for (const bool is_serial : ops.is_serial) out->push_back(is_serial ? 1 : 0);
}

Result<TransactionOps> ReadTransaction(Decoder* decoder, std::size_t messages) {
  TransactionOps ops;
  const auto flags = decoder->Little<std::uint8_t>();
  if ((flags & kHasStart) != 0) {
    ops.start_serial = Serial{decoder->Little<std::uint64_t>()};
    const auto open_for = decoder->Little<std::uint64_t>();
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 50;  // µs: no clock is that old
    ops.begun = std::chrono::steady_clock::now() -
                microseconds(static_cast<std::int64_t>(std::min(open_for, kLongest)));
  }
  if ((flags & kHasGeneration) != 0) ops.generation = Generation{decoder->Little<std::uint32_t>()};
  TOPICDB_ASSIGN_OR_RETURN(ops.reads, ReadKeys(decoder));
  TOPICDB_ASSIGN_OR_RETURN(ops.deletes, ReadKeys(decoder));
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    const auto wants = decoder->Little<std::uint8_t>();
    Requirement requirement;
    requirement.topic = decoder->Prefixed();
    requirement.timestamp = ReadTime(decoder).value_or(kNoTime);
    if ((wants & kHasValue) != 0) requirement.value = std::string(decoder->Prefixed());
    requirement.any_value = (wants & kAnyValue) != 0;
    ops.requirements.push_back(std::move(requirement));
  }
  if ((flags & kHasSerials) != 0) {
    const std::string_view marks = decoder->Bytes(messages);
    for (const char mark : marks) ops.is_serial.push_back(mark != 0);
  }
  return ops;
}

void AppendCommit(std::string* out, const ShardCommit& commit) {
  AppendLittle(out,
               static_cast<std::uint8_t>((commit.id != nullptr ? kHasId : 0) |
                                         (commit.transaction != nullptr ? kHasTransaction : 0)));
  AppendVarint(out, commit.messages.size());
  for (const MessageView& message : commit.messages) {
    AppendPrefixed(out, message.topic);
    AppendLittle(out, static_cast<std::uint64_t>(message.timestamp));
    AppendPrefixed(out, message.value);
  }
  if (commit.id != nullptr) {
    AppendPrefixed(out, commit.id->id);
    out->append(commit.id->digest.begin(), commit.id->digest.end());
    AppendLittle(out, commit.id->messages);
  }
  if (commit.transaction != nullptr) AppendTransaction(out, *commit.transaction);
}

Result<SentCommit> ReadCommit(Decoder* decoder) {
  SentCommit commit;
  const auto flags = decoder->Little<std::uint8_t>();
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    MessageView& message = commit.messages.emplace_back();
    message.topic = decoder->Prefixed();
    message.timestamp = static_cast<std::int64_t>(decoder->Little<std::uint64_t>());
    message.value = decoder->Prefixed();
    commit.bytes += sizeof(MessageView) + message.topic.size() + message.value.size();
  }
  if ((flags & kHasId) != 0) {
    AppendId& id = commit.id.emplace();
    id.id = decoder->Prefixed();
    decoder->Array(&id.digest);
    id.messages = decoder->Little<std::uint64_t>();
  }
  if ((flags & kHasTransaction) != 0 && decoder->ok()) {
    TOPICDB_ASSIGN_OR_RETURN(commit.transaction, ReadTransaction(decoder, commit.messages.size()));
  }
  return commit;
}

// Returns the first version that has this kind of call. The versions differ in nothing else.
std::uint8_t VersionOf(LeaderCallKind kind) {
  switch (kind) {
    case LeaderCallKind::kStage:
      return 2;
    case LeaderCallKind::kSealAll:
      return 3;
    default:
      return 1;
  }
}

std::string BeginCall(LeaderCallKind kind) {
  std::string bytes(1, kCall);
  AppendLittle(&bytes, VersionOf(kind));
  AppendLittle(&bytes, static_cast<std::uint8_t>(kind));
  return bytes;
}

void AppendRotate(std::string* out, const RotateOptions& rotate) {
  AppendLittle(out, static_cast<std::uint8_t>(rotate.resets_clock ? 1 : 0));
  // 0 stands for what is absent.
  AppendLittle(
      out, rotate.layout.has_value() ? static_cast<std::uint8_t>(*rotate.layout) : std::uint8_t{0});
  AppendLittle(out, static_cast<std::uint8_t>(rotate.retention_class.has_value() ? 1 : 0));
  AppendLittle(out, rotate.retention_class.value_or(RetentionClassId{}).value());
  AppendLittle(out, static_cast<std::uint8_t>(rotate.as_if.has_value() ? 1 : 0));
  const auto time = rotate.as_if.value_or(WallTime()).time_since_epoch();
  AppendLittle(out,
               static_cast<std::uint64_t>(std::chrono::duration_cast<microseconds>(time).count()));
}

RotateOptions ReadRotate(Decoder* decoder, bool* is_good) {
  RotateOptions rotate;
  rotate.resets_clock = decoder->Little<std::uint8_t>() != 0;
  const auto layout = decoder->Little<std::uint8_t>();
  *is_good = layout <= static_cast<std::uint8_t>(LayoutKind::kColumnar);
  if (layout != 0 && *is_good) rotate.layout = static_cast<LayoutKind>(layout);
  const bool has_class = decoder->Little<std::uint8_t>() != 0;
  const RetentionClassId retention_class{decoder->Little<std::uint32_t>()};
  if (has_class) rotate.retention_class = retention_class;
  const bool has_time = decoder->Little<std::uint8_t>() != 0;
  const microseconds time(static_cast<std::int64_t>(decoder->Little<std::uint64_t>()));
  if (has_time) rotate.as_if = WallTime(time);
  return rotate;
}

void AppendStored(std::string* out, const StoredCall& stored) {
  for (const std::uint64_t number : {stored.replica, stored.number, stored.bytes, stored.offset}) {
    AppendLittle(out, number);
  }
}
StoredCall ReadStored(Decoder* decoder) {
  StoredCall stored;
  for (std::uint64_t* number : {&stored.replica, &stored.number, &stored.bytes, &stored.offset}) {
    *number = decoder->Little<std::uint64_t>();
  }
  return stored;
}

void AppendStage(std::string* out, const StagingStep& step) {
  AppendLittle(out, static_cast<std::uint8_t>(step.kind));
  AppendPrefixed(out, step.job);
  switch (step.kind) {
    case StagingStep::Kind::kPut:
      AppendVarint(out, step.records.size());
      for (const auto& [rest, value] : step.records) {
        AppendPrefixed(out, rest);
        AppendPrefixed(out, value);
      }
      break;
    case StagingStep::Kind::kChoose:
      out->append(step.commit.begin(), step.commit.end());
      AppendPrefixed(out, Encode(step.choice));
      break;
    case StagingStep::Kind::kRemove:
      AppendLittle(out, step.epoch);
      break;
  }
}
StagingStep ReadStage(Decoder* decoder) {
  StagingStep step;
  step.kind = static_cast<StagingStep::Kind>(decoder->Little<std::uint8_t>());
  step.job = decoder->Prefixed();
  if (!CheckJobName(step.job).ok()) decoder->Refuse();
  switch (step.kind) {
    case StagingStep::Kind::kPut: {
      const std::uint64_t records = decoder->Varint();
      for (std::uint64_t i = 0; i < records && decoder->ok(); ++i) {
        const std::string_view rest = decoder->Prefixed();
        step.records.emplace_back(rest, decoder->Prefixed());
      }
      break;
    }
    case StagingStep::Kind::kChoose:
      decoder->Array(&step.commit);
      if (!Decode(decoder->Prefixed(), &step.choice)) decoder->Refuse();
      break;
    case StagingStep::Kind::kRemove:
      step.epoch = decoder->Little<std::uint64_t>();
      break;
    default:
      decoder->Refuse();
  }
  return step;
}

void AppendOptional(std::string* out, const std::optional<std::string>& value) {
  AppendLittle(out, static_cast<std::uint8_t>(value.has_value() ? 1 : 0));
  if (value.has_value()) AppendPrefixed(out, *value);
}
std::optional<std::string> ReadOptional(Decoder* decoder) {
  if (decoder->Little<std::uint8_t>() == 0) return std::nullopt;
  return std::string(decoder->Prefixed());
}

void AppendFault(std::string* out, const CommitFault& fault) {
  AppendVarint(out, fault.conflicts.size());
  for (const ConflictItem& item : fault.conflicts) {
    AppendPrefixed(out, item.filter);
    AppendRange(out, item.range);
    AppendLittle(out, item.serial.value());
  }
  AppendVarint(out, fault.preconditions.size());
  for (const PreconditionItem& item : fault.preconditions) {
    AppendPrefixed(out, item.topic);
    AppendTime(out, item.timestamp);
    AppendOptional(out, item.expected);
    AppendOptional(out, item.found);
    AppendLittle(out, static_cast<std::uint8_t>(item.expects_any ? 1 : 0));
  }
}
CommitFault ReadFault(Decoder* decoder) {
  CommitFault fault;
  const std::uint64_t conflicts = decoder->Varint();
  for (std::uint64_t i = 0; i < conflicts && decoder->ok(); ++i) {
    ConflictItem& item = fault.conflicts.emplace_back();
    item.filter = decoder->Prefixed();
    item.range = ReadRange(decoder);
    item.serial = Serial{decoder->Little<std::uint64_t>()};
  }
  const std::uint64_t preconditions = decoder->Varint();
  for (std::uint64_t i = 0; i < preconditions && decoder->ok(); ++i) {
    PreconditionItem& item = fault.preconditions.emplace_back();
    item.topic = decoder->Prefixed();
    item.timestamp = ReadTime(decoder).value_or(kNoTime);
    item.expected = ReadOptional(decoder);
    item.found = ReadOptional(decoder);
    item.expects_any = decoder->Little<std::uint8_t>() != 0;
  }
  return fault;
}

}  // namespace

bool IsLeaderCall(std::string_view bytes) { return !bytes.empty() && bytes.front() == kCall; }

std::string EncodeCommits(std::span<ShardCommit* const> commits, std::size_t bytes_max,
                          std::size_t* count) {
  std::string body;
  for (*count = 0; *count < commits.size(); ++*count) {
    const std::size_t before = body.size();
    AppendCommit(&body, *commits[*count]);
    if (*count == 0 || body.size() <= bytes_max) continue;
    body.resize(before);
    break;
  }
  std::string bytes = BeginCall(LeaderCallKind::kCommit);
  AppendVarint(&bytes, *count);
  bytes += body;
  AppendHash(&bytes);
  return bytes;
}

std::string Encode(const LeaderCall& call) {
  std::string bytes = BeginCall(call.kind);
  switch (call.kind) {
    case LeaderCallKind::kCommit:
      AppendVarint(&bytes, 0);
      break;
    case LeaderCallKind::kBegin:
    case LeaderCallKind::kSealAll:
      break;
    case LeaderCallKind::kFindAppend:
      AppendPrefixed(&bytes, call.id);
      break;
    case LeaderCallKind::kRotate:
      AppendRotate(&bytes, call.rotate);
      break;
    case LeaderCallKind::kDropSlab:
      AppendLittle(&bytes, call.retention_class.value());
      AppendLittle(&bytes, call.generation.value());
      break;
    case LeaderCallKind::kStored:
    case LeaderCallKind::kPart:
      AppendStored(&bytes, call.stored);
      break;
    case LeaderCallKind::kStage:
      AppendStage(&bytes, call.stage);
      break;
  }
  AppendHash(&bytes);
  return bytes;
}

Result<LeaderCall> DecodeLeaderCall(std::string_view bytes) {
  const std::string what = "a call of another replica";
  const auto content = WithoutHash(bytes);
  if (!content.has_value() || !IsLeaderCall(*content)) return Corruption(what + " is damaged");
  Decoder decoder(content->substr(1));
  const auto version = decoder.Little<std::uint8_t>();
  if (version > kCallVersion) {
    return SchemaFault(what + " is of a later version of TopicDB (" + std::to_string(version) +
                       "): upgrade TopicDB on this site");
  }
  LeaderCall call;
  call.kind = static_cast<LeaderCallKind>(decoder.Little<std::uint8_t>());
  bool is_good = version > 0 && version >= VersionOf(call.kind);
  switch (call.kind) {
    case LeaderCallKind::kCommit: {
      const std::uint64_t count = decoder.Varint();
      for (std::uint64_t i = 0; i < count && decoder.ok(); ++i) {
        auto commit = ReadCommit(&decoder);
        if (!commit.ok()) return Corruption(what + ": " + commit.status().message());
        call.commits.push_back(std::move(*commit));
      }
      break;
    }
    case LeaderCallKind::kBegin:
    case LeaderCallKind::kSealAll:
      break;
    case LeaderCallKind::kFindAppend:
      call.id = decoder.Prefixed();
      break;
    case LeaderCallKind::kRotate:
      call.rotate = ReadRotate(&decoder, &is_good);
      break;
    case LeaderCallKind::kDropSlab:
      call.retention_class = RetentionClassId{decoder.Little<std::uint32_t>()};
      call.generation = Generation{decoder.Little<std::uint32_t>()};
      break;
    case LeaderCallKind::kStored:
    case LeaderCallKind::kPart:
      call.stored = ReadStored(&decoder);
      break;
    case LeaderCallKind::kStage:
      call.stage = ReadStage(&decoder);
      break;
    default:
      return UnknownKind(what, static_cast<std::uint8_t>(call.kind));
  }
  if (!is_good || !decoder.Finished()) return Corruption(what + " is damaged");
  return call;
}

std::string Encode(const LeaderAnswer& answer) {
  std::string bytes;
  AppendLittle(&bytes, kAnswerVersion);
  AppendStatus(&bytes, answer.status);
  AppendVarint(&bytes, answer.outcomes.size());
  for (const LeaderAnswer::Outcome& outcome : answer.outcomes) {
    AppendStatus(&bytes, outcome.status);
    AppendLittle(&bytes, outcome.serial.value());
    AppendLittle(&bytes, outcome.deleted);
    AppendLittle(&bytes, static_cast<std::uint8_t>(outcome.repeated ? 1 : 0));
    AppendFault(&bytes, outcome.fault);
  }
  AppendLittle(&bytes, answer.index);
  AppendLittle(&bytes, static_cast<std::uint8_t>(answer.known.has_value() ? 1 : 0));
  if (answer.known.has_value()) {
    AppendLittle(&bytes, answer.known->serial.value());
    AppendLittle(&bytes, answer.known->messages);
    bytes.append(answer.known->digest.begin(), answer.known->digest.end());
  }
  AppendHash(&bytes);
  return bytes;
}

Result<LeaderAnswer> DecodeLeaderAnswer(std::string_view bytes) {
  const std::string what = "the answer of the replica that leads";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kAnswerVersion));
  LeaderAnswer answer;
  TOPICDB_RETURN_IF_ERROR(ReadStatus(&decoder, &answer.status).WithContext(what));
  const std::uint64_t count = decoder.Varint();
  for (std::uint64_t i = 0; i < count && decoder.ok(); ++i) {
    LeaderAnswer::Outcome& outcome = answer.outcomes.emplace_back();
    TOPICDB_RETURN_IF_ERROR(ReadStatus(&decoder, &outcome.status).WithContext(what));
    outcome.serial = Serial{decoder.Little<std::uint64_t>()};
    outcome.deleted = decoder.Little<std::uint64_t>();
    outcome.repeated = decoder.Little<std::uint8_t>() != 0;
    outcome.fault = ReadFault(&decoder);
  }
  answer.index = decoder.Little<std::uint64_t>();
  if (decoder.Little<std::uint8_t>() != 0) {
    KnownAppend& known = answer.known.emplace();
    known.serial = Serial{decoder.Little<std::uint64_t>()};
    known.messages = decoder.Little<std::uint64_t>();
    decoder.Array(&known.digest);
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return answer;
}

}  // namespace topicdb::replication
