// Writes well-formed inputs of queue_fuzzer, of each kind, into the directory that is its argument.
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/coding.h"
#include "queue/consumer.h"
#include "segment/segment_format.h"

namespace topicdb {
namespace {

// Returns two frames of these items, one behind the other.
std::string FramesOf(const SegmentIdentity& identity, const WeighedItems& items) {
  std::string frames;
  NativeSegmentFormat().EncodeFrames(identity, 64, 1, items, &frames);
  NativeSegmentFormat().EncodeFrames(identity, 64 + frames.size(), 4, items, &frames);
  return frames;
}

// Returns the first of two frames in the form that queue_fuzzer stamps.
std::string CutOf(const std::string& frames) {
  std::string cut = frames.substr(0, 32);
  AppendLittle(&cut, static_cast<std::uint16_t>(frames.size() / 2 - 32));
  return cut + frames.substr(32, frames.size() / 2 - 32);
}

int WriteSeeds(const std::string& directory) {
  SegmentIdentity identity{1, 1, 1, QueueId{7}};
  const std::vector<std::string_view> items{"first", "", "third, which is longer"};
  const std::string frames = FramesOf(identity, items);
  identity.weighed = true;
  const std::vector<std::uint64_t> weights{1, 1'000, 0};
  const std::string weighed = FramesOf(identity, {items, weights});
  std::string records;
  ReplayqSegmentFormat().EncodeFrames({}, 0, 0, items, &records);
  const std::string cursor = Consumer("default", 17).Encode();
  const std::string seeds[] = {std::string(1, '\0') + frames,
                               "\x01" + CutOf(frames),
                               "\x02" + records,
                               "\x03" + cursor,
                               "\x04" + weighed,
                               "\x05" + CutOf(weighed)};
  int number = 0;
  for (const std::string& seed : seeds) {
    std::ofstream file(directory + "/queue-seed-" + std::to_string(++number), std::ios::binary);
    file << seed;
    file.close();
    if (!file.good()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace topicdb

int main(int count, char** arguments) {
  if (count == 2) return topicdb::WriteSeeds(arguments[1]);
  std::fprintf(stderr, "usage: queue_seeds DIRECTORY\n");
  return 2;
}
