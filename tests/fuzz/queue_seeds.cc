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

int WriteSeeds(const std::string& directory) {
  const SegmentIdentity identity{1, 1, 1, QueueId{7}};
  const std::vector<std::string_view> items{"first", "", "third, which is longer"};
  std::string frames;
  NativeSegmentFormat().EncodeFrames(identity, 64, 1, items, &frames);
  NativeSegmentFormat().EncodeFrames(identity, 64 + frames.size(), 4, items, &frames);
  std::string cut = frames.substr(0, 32);
  AppendLittle(&cut, static_cast<std::uint16_t>(frames.size() / 2 - 32));
  cut += frames.substr(32, frames.size() / 2 - 32);
  std::string records;
  ReplayqSegmentFormat().EncodeFrames({}, 0, 0, items, &records);
  const std::string cursor = Consumer("default", 17).Encode();
  const std::string seeds[] = {std::string(1, '\0') + frames, "\x01" + cut, "\x02" + records,
                               "\x03" + cursor};
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
