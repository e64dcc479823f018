// Writes well-formed inputs of job_fuzzer into the directory that is its argument.
#include <fstream>
#include <string>

#include "layout/columnar/format/block_format.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"

namespace topicdb {
namespace {

void Write(const std::string& directory, const std::string& name, char kind,
           const std::string& bytes) {
  constexpr std::size_t kCrcBytes = 4;  // the fuzzer adds it
  std::ofstream(directory + "/" + name, std::ios::binary)
      << kind << bytes.substr(0, bytes.size() - kCrcBytes);
}

StagedFile ExampleFile() {
  StagedPart part{2, RetentionClassId{1}, "a-2-1.pages", 12'345, 0, 0, 0, {}};
  StagedBlock block{
      kStagedPagesMin + 7, false,   30, 900, 5, 70, {{1, "a/b"}, {1, "a/c"}, {3, "x"}}, "entry",
      "directory",         "filter"};
  AppendStagedBlock(block, &part);
  block.assigns_times = true;
  AppendStagedBlock(block, &part);
  return {{1, 2, 3}, {part, part}};
}

}  // namespace
}  // namespace topicdb

int main(int count, char** arguments) {
  using namespace topicdb;
  if (count != 2) return 2;
  const std::string directory = arguments[1];
  Write(directory, "staged", 0, EncodeStagedFile(ExampleFile()));
  Write(directory, "intent", 1,
        EncodeIntent({{1, 2}, "job", "query", 7, {0, 2}, {"a.staged", "b.staged"}, 60, 2, {}}));
  Write(directory, "outcome", 2, EncodeOutcome({Serial{300}, true}));
  Write(directory, "placement", 3,
        Encode(
            columnar::Placement{kStagedPagesMin + 9,
                                Serial{300},
                                1'000,
                                {{1, StreamId{7}, {}}, {4, StreamId{8}, {{"a/b", StreamId{9}}}}}}));
  return 0;
}
