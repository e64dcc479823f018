#include "replication/cluster/site_call.h"

#include <utility>

#include "base/bytes/coding.h"
#include "replication/hashed_bytes.h"
#include "replication/status_bytes.h"

namespace topicdb::replication {

namespace {

// Version 1 has no formats and no digests. A site of an earlier version of TopicDB understands no
// other one.
constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kVersionOfFirstFormat = 1;

}  // namespace

std::uint32_t FormatOf(const SiteCall& call) {
  const bool is_later = call.kind >= SiteCallKind::kFormat || call.format > kClusterFormatFirst;
  return is_later ? 2 : kClusterFormatFirst;
}

std::string Encode(const SiteCall& call) {
  std::string bytes;
  const bool is_later = FormatOf(call) > kClusterFormatFirst;
  bytes.push_back(static_cast<char>(is_later ? kVersion : kVersionOfFirstFormat));
  bytes.push_back(static_cast<char>(call.kind));
  switch (call.kind) {
    case SiteCallKind::kJoin:
      AppendPrefixed(&bytes, call.name);
      bytes.append(call.id.begin(), call.id.end());
      AppendPrefixed(&bytes, call.peers);
      if (is_later) AppendLittle(&bytes, call.format);
      break;
    case SiteCallKind::kStanding:
      bytes.append(call.cluster.begin(), call.cluster.end());
      AppendLittle(&bytes, call.replica);
      AppendPrefixed(&bytes, call.peers);
      break;
    case SiteCallKind::kStepDown:
    case SiteCallKind::kFormat:
      break;
    case SiteCallKind::kHandOver:
      AppendLittle(&bytes, call.shard);
      AppendLittle(&bytes, call.replica);
      break;
    case SiteCallKind::kBeginDigest:
    case SiteCallKind::kHeal:
      AppendLittle(&bytes, call.shard);
      break;
    case SiteCallKind::kTakeDigest:
      AppendLittle(&bytes, call.shard);
      AppendLittle(&bytes, call.place.index);
      AppendLittle(&bytes, call.place.term);
      break;
  }
  AppendHash(&bytes);
  return bytes;
}

Result<SiteCall> DecodeSiteCall(std::string_view bytes) {
  const std::string what = "a call to a site";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  const auto version = static_cast<std::uint8_t>(bytes[0]);
  SiteCall call;
  call.kind = SiteCallKind{decoder.Little<std::uint8_t>()};
  switch (call.kind) {
    case SiteCallKind::kJoin:
      call.name = decoder.Prefixed();
      decoder.Array(&call.id);
      call.peers = decoder.Prefixed();
      if (version > kVersionOfFirstFormat) {
        call.format = decoder.Little<std::uint32_t>();
        if (call.format <= kClusterFormatFirst) decoder.Refuse();
      }
      break;
    case SiteCallKind::kStanding:
      decoder.Array(&call.cluster);
      call.replica = decoder.Little<std::uint64_t>();
      call.peers = decoder.Prefixed();
      break;
    case SiteCallKind::kStepDown:
    case SiteCallKind::kFormat:
      break;
    case SiteCallKind::kHandOver:
      call.shard = decoder.Little<std::uint32_t>();
      call.replica = decoder.Little<std::uint64_t>();
      break;
    case SiteCallKind::kBeginDigest:
    case SiteCallKind::kHeal:
      call.shard = decoder.Little<std::uint32_t>();
      break;
    case SiteCallKind::kTakeDigest:
      call.shard = decoder.Little<std::uint32_t>();
      call.place.index = decoder.Little<std::uint64_t>();
      call.place.term = decoder.Little<std::uint64_t>();
      break;
    default:
      return UnknownKind(what, static_cast<std::uint8_t>(call.kind));
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return call;
}

std::string Encode(const SiteAnswer& answer) {
  std::string bytes;
  const bool has_later = answer.format > kClusterFormatFirst || !answer.digest.empty();
  bytes.push_back(static_cast<char>(has_later ? kVersion : kVersionOfFirstFormat));
  AppendStatus(&bytes, answer.status);
  AppendLittle(&bytes, answer.group);
  AppendPrefixed(&bytes, Encode(ClusterSnapshot{0, answer.state}));
  if (has_later) {
    AppendLittle(&bytes, answer.format);
    AppendPrefixed(&bytes, answer.digest);
  }
  AppendHash(&bytes);
  return bytes;
}

Result<SiteAnswer> DecodeSiteAnswer(std::string_view bytes) {
  const std::string what = "the answer of a site";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  SiteAnswer answer;
  TOPICDB_RETURN_IF_ERROR(ReadStatus(&decoder, &answer.status).WithContext(what));
  answer.group = decoder.Little<std::uint64_t>();
  const std::string_view state = decoder.Prefixed();
  if (bytes[0] > kVersionOfFirstFormat) {
    answer.format = decoder.Little<std::uint32_t>();
    answer.digest = decoder.Prefixed();
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  TOPICDB_ASSIGN_OR_RETURN(ClusterSnapshot snapshot, DecodeClusterSnapshot(state));
  answer.state = std::move(snapshot.state);
  return answer;
}

}  // namespace topicdb::replication
