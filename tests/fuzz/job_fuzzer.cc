// A libFuzzer target for the records of jobs and of staged blocks. Whatever the bytes are, decoding
// ends, and what it gives is encoded to bytes that give the same. scripts/fuzz.sh runs it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/block_format.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"

namespace topicdb {
namespace {

// The first byte of an input says which of these the rest is.
enum class Kind : std::uint8_t { kStagedFile, kIntent, kOutcome, kPlacement, kKinds };

void Expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "job_fuzzer: %s\n", what);
  std::abort();
}

void CheckStagedFile(std::string_view bytes) {
  const auto file = DecodeStagedFile(bytes, "fuzz");
  if (!file.ok()) return;
  StagedFile copy{file->database, {}};
  bool all_read = true;
  for (const StagedPart& part : file->parts) {
    StagedPart& same = copy.parts.emplace_back(part);
    same.blocks.clear();
    same.block_count = 0;
    const Status status = ForEachStagedBlock(part, [&](const StagedBlock& block) {
      Expect(!block.topics.empty(), "a block without topics");
      AppendStagedBlock(block, &same);
      return Status::Ok();
    });
    same.messages = part.messages;
    same.bytes = part.bytes;
    all_read = all_read && status.ok();
  }
  if (!all_read) return;
  const std::string encoded = EncodeStagedFile(copy);
  const auto again = DecodeStagedFile(encoded, "fuzz");
  Expect(again.ok() && EncodeStagedFile(*again) == encoded, "a staged file changes");
}

void CheckIntent(std::string_view bytes) {
  const auto intent = DecodeIntent(bytes, "fuzz");
  if (!intent.ok()) return;
  const std::string encoded = EncodeIntent(*intent);
  const auto again = DecodeIntent(encoded, "fuzz");
  Expect(again.ok() && EncodeIntent(*again) == encoded, "an intent changes");
}

void CheckOutcome(std::string_view bytes) {
  ShardOutcome outcome;
  if (!DecodeOutcome(bytes, &outcome)) return;
  ShardOutcome again;
  Expect(DecodeOutcome(EncodeOutcome(outcome), &again) && again.serial == outcome.serial &&
             again.repeated == outcome.repeated,
         "an outcome changes");
}

void CheckPlacement(std::string_view bytes) {
  columnar::Placement placement;
  if (!Decode(bytes, &placement)) return;
  for (const auto& group : placement.groups) {
    Expect(placement.StreamOf(group.group, "a") != kNoStream, "a group without a stream");
    Expect(!placement.GroupsOf({group.stream}).empty(), "a stream without a group");
  }
  columnar::Placement again;
  Expect(Decode(Encode(placement), &again) && Encode(again) == Encode(placement),
         "a placement changes");
}

}  // namespace
}  // namespace topicdb

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace topicdb;
  if (size == 0) return 0;
  const auto kind = static_cast<Kind>(data[0] % static_cast<int>(Kind::kKinds));
  // Makes the checksum right, so that decoding does not end at it.
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  AppendLittle(&bytes, Crc32(bytes));
  switch (kind) {
    case Kind::kStagedFile:
      CheckStagedFile(bytes);
      break;
    case Kind::kIntent:
      CheckIntent(bytes);
      break;
    case Kind::kOutcome:
      CheckOutcome(bytes);
      break;
    default:
      CheckPlacement(bytes);
      break;
  }
  return 0;
}
