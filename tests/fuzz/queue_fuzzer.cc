// A libFuzzer target for what a queue reads from disk. Whatever the bytes are, reading ends, goes
// forward, and gives items that lie in the bytes, or says that the bytes are damaged.
// scripts/fuzz.sh runs it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes/coding.h"
#include "queue/consumer.h"
#include "segment/segment_reader.h"

namespace topicdb {
namespace {

constexpr std::size_t kFrameHeaderBytes = 32;

// The first byte of an input says which of these the rest is.
enum class Kind : std::uint8_t {
  kNativeFile,
  kNativeFrames,
  kReplayqFile,
  kCursor,
  kWeighedFile,
  kWeighedFrames,
  kKinds
};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "queue_fuzzer: %s\n", what);
  std::abort();
}

const std::string& ScratchPath() {
  static const std::string path = "/dev/shm/topicdb-queue-fuzzer-" + std::to_string(getpid());
  return path;
}

void CheckBlock(const SegmentReader& reader, std::uint64_t sequence) {
  const Block& block = reader.block();
  if (block.items.empty()) Fail("a block without items");
  if (block.first_sequence != sequence) Fail("a block that does not follow");
  if (block.end_offset <= block.offset) Fail("a block of no bytes");
  if (!block.weights.empty() && block.weights.size() != block.items.size()) {
    Fail("other weights than items");
  }
  const char* begin = reader.window().bytes.get();
  for (const std::string_view item : block.items) {
    if (item.data() < begin || item.data() + item.size() > begin + reader.window().size) {
      Fail("an item that is not in the window");
    }
  }
}

void ReadFileOf(std::string_view bytes, const SegmentFormat& format,
                const SegmentIdentity& identity, std::uint64_t end_sequence) {
  const auto file = File::CreateOrEmpty(ScratchPath());
  if (!file.ok() || !(*file)->WriteAt(0, bytes).ok()) Fail("no scratch file");
  SegmentReader reader(*file, format, identity);
  std::uint64_t sequence = identity.first_sequence;
  const ReadLimit limit{bytes.size(), end_sequence};
  for (std::size_t events = 0;; ++events) {
    if (events > 2 * bytes.size() + 4) Fail("reading does not end");
    const std::uint64_t offset = reader.offset();
    const auto event = reader.Next(limit);
    if (!event.ok()) Fail("reading fails");
    if (*event == ReadEvent::kEnd) break;
    if (*event == ReadEvent::kBlock) CheckBlock(reader, sequence);
    if (*event == ReadEvent::kLost && reader.lost().first_sequence != sequence) {
      Fail("a loss that does not follow");
    }
    if (reader.offset() < offset || reader.sequence() < sequence) Fail("reading goes back");
    sequence = reader.sequence();
  }
  unlink(ScratchPath().c_str());
}

// Cuts frames from the input and makes their checksums right, since mutations hardly ever do that.
std::string Stamped(std::string_view input, const SegmentIdentity& identity) {
  std::string file = NativeSegmentFormat().EncodeHeader(identity);
  Decoder in(input);
  while (in.ok() && !in.rest().empty()) {
    std::string frame(in.Bytes(kFrameHeaderBytes));
    const auto size = in.Little<std::uint16_t>();
    frame += in.Bytes(size);
    if (!in.ok()) break;
    frame.resize((frame.size() + 7) / 8 * 8, '\0');
    frame.replace(0, 4, std::string(identity.weighed ? "TQF\x02" : "TQF\x01", 4));
    StampNativeFrame(identity, file.size(), frame);
    file += frame;
  }
  return file;
}

void CheckCursor(std::string_view input) {
  const auto consumer = Consumer::Decode(input);
  if (!consumer.ok()) {
    if (consumer.status().code() != Code::kCorruption) Fail("a cursor is refused otherwise");
    return;
  }
  const std::string again = (*consumer)->Encode();
  const auto twice = Consumer::Decode(again);
  if (!twice.ok() || (*twice)->Encode() != again) Fail("a cursor changes when it is written");
}

void Check(std::string_view input) {
  if (input.empty()) return;
  SegmentIdentity identity{1, 1, 1, QueueId{7}};
  const auto kind = static_cast<Kind>(static_cast<std::uint8_t>(input[0]) %
                                      static_cast<std::uint8_t>(Kind::kKinds));
  input.remove_prefix(1);
  switch (kind) {
    case Kind::kNativeFile:
    case Kind::kWeighedFile: {
      identity.weighed = kind == Kind::kWeighedFile;
      const std::string file = NativeSegmentFormat().EncodeHeader(identity) + std::string(input);
      return ReadFileOf(file, NativeSegmentFormat(), identity, input.size() % 5);
    }
    case Kind::kNativeFrames:
    case Kind::kWeighedFrames:
      identity.weighed = kind == Kind::kWeighedFrames;
      return ReadFileOf(Stamped(input, identity), NativeSegmentFormat(), identity,
                        input.size() % 5);
    case Kind::kReplayqFile:
      return ReadFileOf(input, ReplayqSegmentFormat(), {1, (1ULL << 32) + 1, 0, {}}, 0);
    case Kind::kCursor:
      return CheckCursor(input);
    case Kind::kKinds:
      return;
  }
}

}  // namespace
}  // namespace topicdb

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topicdb::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
