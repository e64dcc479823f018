// Measures the inner steps of the core one by one, with the topics of the workload "metrics".
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes/crc32.h"
#include "layout/skipstream/skipstream_keys.h"
#include "structure/structure_trie.h"
#include "topicdb/database.h"
#include "topicdb/topic.h"

namespace topicdb {
namespace {

constexpr int kHosts = 1000;
constexpr int kSockets = 2;
constexpr int kCores = 16;
constexpr std::size_t kBatchRows = 10'000;
constexpr std::size_t kValueBytes = 200;
constexpr std::int64_t kStartUs = 1'700'000'000'000'000;

std::vector<std::string> MakeTopics() {
  std::vector<std::string> topics;
  for (int host = 0; host < kHosts; ++host) {
    for (int socket = 0; socket < kSockets; ++socket) {
      for (int core = 0; core < kCores; ++core) {
        topics.push_back("metrics/host" + std::to_string(host) + "/cpu/socket/" +
                         std::to_string(socket) + "/core/" + std::to_string(core));
      }
    }
  }
  return topics;
}

const std::vector<std::string>& Topics() {
  static const std::vector<std::string> topics = MakeTopics();
  return topics;
}

// A new directory. The destructor removes it with all that is in it.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "topicdb-bench-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void BM_FilterParse(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(Filter::Parse("metrics/+/cpu/socket/+/core/#"));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_FilterParse);

void BM_FilterMatches(benchmark::State& state) {
  const auto filter = Filter::Parse("metrics/+/cpu/socket/1/core/#");
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(filter->Matches(Topics()[next]));
    if (++next == Topics().size()) next = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_FilterMatches);

void BM_CheckTopic(benchmark::State& state) {
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckTopic(Topics()[next]));
    if (++next == Topics().size()) next = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_CheckTopic);

void BM_Crc32Topic(benchmark::State& state) {
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(Crc32(Topics()[next]));
    if (++next == Topics().size()) next = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Crc32Topic);

// Returns the adaptive algorithm for the argument 1, and the base algorithm for 0.
Learning LearningOf(const benchmark::State& state) {
  return {{100, 10}, state.range(0) == 1, 4'096};
}

// Puts all topics into an empty trie, to measure what learning costs.
void BM_ResolveNew(benchmark::State& state) {
  std::vector<std::string_view> varying;
  for (auto _ : state) {
    const StructureTrie trie(LearningOf(state));
    StructureEdit edit(trie);
    for (const std::string& topic : Topics()) {
      benchmark::DoNotOptimize(edit.Resolve(topic, &varying));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(Topics().size()));
}
BENCHMARK(BM_ResolveNew)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_ResolveKnown(benchmark::State& state) {
  std::vector<std::string_view> varying;
  StructureTrie trie(LearningOf(state));
  {
    StructureEdit learn(trie);
    for (const std::string& topic : Topics()) learn.Resolve(topic, &varying);
    trie.Apply(learn);
  }
  StructureEdit edit(trie);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(edit.Resolve(Topics()[next], &varying));
    if (++next == Topics().size()) next = 0;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["bytes_per_edge"] =
      static_cast<double>(trie.memory_bytes()) / static_cast<double>(trie.last_node());
}
BENCHMARK(BM_ResolveKnown)->Arg(0)->Arg(1);

void BM_KeyEncode(benchmark::State& state) {
  const std::vector<std::string_view> words = {"host123", "1", "15"};
  std::string key;
  for (auto _ : state) {
    key.clear();
    skipstream::AppendDataPrefix(&key, StreamId{7});
    skipstream::AppendTime(&key, kStartUs, 8);
    skipstream::AppendWords(&key, words);
    benchmark::DoNotOptimize(key.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_KeyEncode);

void BM_IndexPrefixEncode(benchmark::State& state) {
  std::string key;
  for (auto _ : state) {
    key.clear();
    skipstream::AppendIndexPrefix(&key, StreamId{7}, 0, "host123");
    benchmark::DoNotOptimize(key.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_IndexPrefixEncode);

void BM_SuffixDecode(benchmark::State& state) {
  const std::vector<std::string_view> words = {"host123", "1", "15"};
  std::string suffix;
  skipstream::AppendTime(&suffix, kStartUs, 8);
  skipstream::AppendWords(&suffix, words);
  skipstream::DecodedSuffix decoded;
  for (auto _ : state) {
    if (!skipstream::DecodeSuffix(suffix, 8, &decoded)) state.SkipWithError("malformed suffix");
    benchmark::DoNotOptimize(decoded.words.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SuffixDecode);

// Appends batches of 10,000 messages to one database, later and later. The column "CPU" is that of
// the calling thread only.
void BM_AppendBatch(benchmark::State& state) {
  const TempDir directory;
  auto database = Database::Open(directory.path() + "/data", OpenOptions{});
  if (!database.ok()) {
    state.SkipWithError("cannot open the database");
    return;
  }
  const std::string value(kValueBytes, 'v');
  std::vector<MessageView> batch(kBatchRows);
  std::int64_t timestamp = kStartUs;
  std::size_t next = 0;
  for (auto _ : state) {
    for (MessageView& message : batch) {
      message = {Topics()[next], timestamp++, value};
      if (++next == Topics().size()) next = 0;
    }
    if (!(*database)->Append(batch).ok()) state.SkipWithError("append failed");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatchRows));
}
BENCHMARK(BM_AppendBatch)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace topicdb
