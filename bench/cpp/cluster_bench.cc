// Measures a replicated shard: three sites in processes of their own on this machine, beside a
// local database. The program prints what the disk takes for an fsync, since that decides most
// figures.
//
//   topicdb_cluster_bench [--rows N] [--rounds N] [--kills N] [--only C1..C7] [--directory PATH]
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/metrics_load.h"
#include "cluster/site_process.h"
#include "topicdb/database.h"

namespace topicdb::replication {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBatchRows = 10'000;

struct Options {
  int rows = 500'000;
  int rounds = 5;
  int kills = 20;
  int seconds = 3;  // for each figure of latency
  int appends = 2'000;
  std::string only;  // the figure that is measured; empty: all
  std::string directory = std::filesystem::temp_directory_path();
};

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double Median(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  return figures[figures.size() / 2];
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Returns the median time of an fdatasync after 64 KiB, in milliseconds.
double FsyncMilliseconds(const std::string& directory) {
  const std::string path = directory + "/fsync";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  const std::string bytes(64 << 10, 'x');
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto began = Clock::now();
    if (write(file, bytes.data(), bytes.size()) < 0 || fdatasync(file) != 0) std::abort();
    times.push_back(Seconds(Clock::now() - began) * 1e3);
  }
  close(file);
  std::filesystem::remove(path);
  return Median(times);
}

// Removes a directory at its end.
class Place {
 public:
  explicit Place(const std::string& parent) : path_(parent + "/topicdb-cluster-bench") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Place() { std::filesystem::remove_all(path_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// What a turn took.
struct Turn {
  double wall = 0;  // seconds
  double cpu = 0;
};

void Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

// Appends the metrics to a local database, and closes it.
Turn AppendTo(const std::string& path, const MetricsLoad& load) {
  auto database = Database::Open(path, {}).value();
  const auto began = Clock::now();
  const double cpu = CpuSeconds();
  for (const auto& batch : load.batches()) {
    const auto receipt = database->Append(batch, Durability::kDisk);
    if (!receipt.ok()) Fail(receipt.status().message());
  }
  if (const Status flushed = database->Flush(); !flushed.ok()) Fail(flushed.message());
  return {Seconds(Clock::now() - began), CpuSeconds() - cpu};
}

Turn AppendLocally(const Options& options, const MetricsLoad& load) {
  const Place place(options.directory);
  return AppendTo(place.path() + "/db", load);
}

double CpuOf(Cluster* cluster) {
  double cpu = 0;
  for (const SiteProcess* site : cluster->sites()) {
    cpu += std::chrono::duration<double>(site->CpuTime()).count();
  }
  return cpu;
}

// Has the leader make metrics, so that making them counts on neither side.
void Prepare(SiteProcess* leader, int rows) {
  leader->Tell("prepare " + std::to_string(rows / kBatchRows) + " " + std::to_string(kBatchRows));
}

// Appends the metrics at the leader. Returns how many seconds that took.
double Load(SiteProcess* leader) {
  const std::string said = leader->Ask("load", std::chrono::minutes(10)).value_or("no answer");
  if (!said.starts_with("ok ")) Fail(said);
  return std::stod(said.substr(3)) / 1e6;
}

Turn AppendToCluster(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  Prepare(&leader, options.rows);
  const double cpu = CpuOf(&cluster);
  const double wall = Load(&leader);
  cluster.AwaitEqual();
  return {wall, CpuOf(&cluster) - cpu};
}

void MeasureThroughput(const Options& options) {
  const MetricsLoad load(options.rows / kBatchRows, kBatchRows);
  std::vector<double> wall[2];
  std::vector<double> cpu[2];
  for (int round = 0; round < options.rounds; ++round) {
    const Turn turns[] = {AppendLocally(options, load), AppendToCluster(options)};
    for (int side = 0; side < 2; ++side) {
      wall[side].push_back(turns[side].wall);
      cpu[side].push_back(turns[side].cpu);
    }
  }
  const double megabytes = static_cast<double>(load.bytes()) / 1e6;
  const char* const names[] = {"local, on disk", "three replicas"};
  for (int side = 0; side < 2; ++side) {
    std::printf("C1 append and seal, 1 shard, %-15s %8.3f s %8.1f MB/s %8.3f CPU s\n", names[side],
                Median(wall[side]), megabytes / Median(wall[side]), Median(cpu[side]));
  }
  std::printf("C1 replicated by local: %.2f (target 0.3 with 4 shards); CPU of all sites: %.2f\n",
              Median(wall[0]) / Median(wall[1]), Median(cpu[1]) / Median(cpu[0]));
}

void MeasureLatency(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  double single = 0;
  for (const int callers : {1, 64}) {
    const std::string said =
        leader
            .Ask("many " + std::to_string(callers) + " " + std::to_string(options.seconds),
                 std::chrono::minutes(2))
            .value_or("no answer");
    std::istringstream words(said);
    std::string word;
    double count = 0;
    double median = 0;
    double most = 0;
    double longest = 0;
    if (!(words >> word >> count >> median >> most >> longest) || word != "ok") Fail(said);
    const double rate = count / options.seconds;
    if (callers == 1) single = rate;
    std::printf(
        "C2 %2d callers: %8.0f appends/s (%.1f times one), p50 %.2f ms, p99 %.2f ms, max %.2f ms\n",
        callers, rate, rate / single, median / 1e3, most / 1e3, longest / 1e3);
  }
}

void MeasureFailover(const Options& options, milliseconds election) {
  const Place place(options.directory);
  Cluster cluster(place.path(), election);
  cluster.StartAll();
  std::vector<double> times;
  for (int kill = 0; kill < options.kills; ++kill) {
    while (!cluster.Append(10)) {
    }
    SiteProcess& leader = cluster.Leader();
    leader.Kill();
    const auto began = Clock::now();
    while (!cluster.Append(10)) {
    }
    times.push_back(Seconds(Clock::now() - began));
    cluster.StartAll();
    cluster.AwaitEqual();
  }
  cluster.CloseAndCheck();
  std::sort(times.begin(), times.end());
  std::printf(
      "C3 leader killed %d times, election timeout %d ms: next acknowledgement after %.2f s "
      "(median), %.2f s (worst)\n",
      options.kills, static_cast<int>(election.count()), times[times.size() / 2], times.back());
}

// Has the site that leads hand over, as before it is restarted, while a client appends.
void MeasureStepDown(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  std::vector<double> times;
  for (int turn = 0; turn < options.kills; ++turn) {
    while (!cluster.Append(10)) {
    }
    SiteProcess& leader = cluster.Leader();
    const auto began = Clock::now();
    leader.Tell("step-down");
    while (!cluster.Append(10)) {
    }
    times.push_back(Seconds(Clock::now() - began));
  }
  cluster.CloseAndCheck();
  std::sort(times.begin(), times.end());
  std::printf(
      "C3 leader steps down %d times: next acknowledgement after %.3f s (median), %.3f s (worst)\n",
      options.kills, times[times.size() / 2], times.back());
}

// Returns the size of the files in a directory, in MB.
double MegabytesIn(const std::string& directory) {
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  return static_cast<double>(bytes) / 1e6;
}

void MeasureRestart(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  Prepare(&leader, options.rows);
  Load(&leader);
  cluster.AwaitEqual();
  std::vector<double> times;
  for (int round = 0; round < options.rounds; ++round) {
    for (SiteProcess* site : cluster.sites()) site->Kill();
    const auto began = Clock::now();
    cluster.StartAll();
    while (!cluster.Append(1)) {
    }
    times.push_back(Seconds(Clock::now() - began));
  }
  std::printf(
      "C5 all killed and started, %.0f MB at each site: first acknowledgement after %.2f s\n",
      MegabytesIn(cluster.site(0).directory() + "/db"), Median(times));
}

void MeasureSnapshot(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.set_flush_bytes(4 << 20);
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  SiteProcess& follower = cluster.site(leader.replica() % 3);
  const std::uint64_t applied = follower.AwaitState().applied;
  follower.Kill();
  Prepare(&leader, options.rows);
  Load(&leader);
  cluster.AppendUntilCut(applied);
  const auto began = Clock::now();
  cluster.StartAll();
  double gap = 0;
  for (auto last = Clock::now();;) {
    while (!cluster.Append(10)) {
    }
    gap = std::max(gap, Seconds(Clock::now() - last));
    const auto state = follower.State();
    if (state.has_value() && state->applied + 10 > leader.AwaitState().last) break;
    last = Clock::now();
  }
  const double took = Seconds(Clock::now() - began);
  const double megabytes = MegabytesIn(follower.directory() + "/db");
  std::printf(
      "C6 a replica gets a snapshot while others append: %.0f MB in %.2f s (%.0f MB/s), longest "
      "gap of "
      "acknowledgements %.2f s\n",
      megabytes, took, megabytes / took, gap);
}

// Measures how long a follower takes to show what the leader has acknowledged. The time has a
// question to the follower and its answer in it.
void MeasureFollower(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  SiteProcess& follower = cluster.site(leader.replica() % 3);
  std::vector<double> times;
  for (int i = 0; i < options.appends; ++i) {
    const std::string said =
        leader.Ask("append " + std::to_string(i * 10) + " 10").value_or("no answer");
    if (!said.starts_with("ok ")) Fail(said);
    const auto began = Clock::now();
    follower.Tell("await " + said.substr(3));
    times.push_back(Seconds(Clock::now() - began) * 1e3);
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "C7 from acknowledgement to what a reader of a follower sees: p50 %.2f ms, p99 %.2f ms\n",
      times[times.size() / 2], times[times.size() * 99 / 100]);
}

// Takes a scan that TimeScan has made: adds its seconds to `times`, and returns what it has read.
std::string TakeScan(const std::string& said, std::vector<double>* times) {
  if (!said.starts_with("ok ")) Fail(said);
  const std::size_t end = said.rfind(' ');
  times->push_back(std::stod(said.substr(end)) / 1e6);
  return said.substr(3, end - 3);
}

// Compares a scan of a follower with that of a local database which has the same messages. The site
// that follows does both.
void MeasureScan(const Options& options) {
  const Place place(options.directory);
  const std::string local = place.path() + "/local";
  const MetricsLoad load(options.rows / kBatchRows, kBatchRows);
  AppendTo(local, load);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  SiteProcess& follower = cluster.site(leader.replica() % 3);
  Prepare(&leader, options.rows);
  Load(&leader);
  cluster.AwaitEqual();
  follower.Tell("settle");
  follower.Tell("local " + local);
  std::vector<double> times[2];
  std::string read[2];
  for (int round = 0; round < options.rounds; ++round) {
    read[0] = TakeScan(follower.Ask("scan-local").value_or("no answer"), &times[0]);
    read[1] = TakeScan(follower.Ask("scan").value_or("no answer"), &times[1]);
    if (read[0] != read[1]) Fail("a local scan reads " + read[0] + ", a follower " + read[1]);
  }
  std::printf("C7 scan of a local database %.3f s, of a follower %.3f s: %.2f x; rows, hash %s\n",
              Median(times[0]), Median(times[1]), Median(times[0]) / Median(times[1]),
              read[0].c_str());
}

Options Parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    const char* const value = arguments[i + 1];
    if (name == "--rows")
      options.rows = std::atoi(value);
    else if (name == "--rounds")
      options.rounds = std::atoi(value);
    else if (name == "--kills")
      options.kills = std::atoi(value);
    else if (name == "--directory")
      options.directory = value;
    else if (name == "--only")
      options.only = value;
    else
      Fail("unknown option " + name + ": give --rows, --rounds, --kills, --only or --directory");
  }
  return options;
}

int Run(int count, char** arguments) {
  const Options options = Parse(count, arguments);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%u processors, fdatasync of 64 KiB takes %.2f ms, %d messages in batches of %d\n",
              std::thread::hardware_concurrency(), FsyncMilliseconds(options.directory),
              options.rows, kBatchRows);
  const auto measures = [&](const char* figure) {
    return options.only.empty() || options.only == figure;
  };
  if (measures("C1")) MeasureThroughput(options);
  if (measures("C2")) MeasureLatency(options);
  if (measures("C3")) {
    for (const int election : {500, 1'000}) MeasureFailover(options, milliseconds(election));
    MeasureStepDown(options);
  }
  if (measures("C5")) MeasureRestart(options);
  if (measures("C6")) MeasureSnapshot(options);
  if (measures("C7")) {
    MeasureFollower(options);
    MeasureScan(options);
  }
  return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}

}  // namespace
}  // namespace topicdb::replication

int main(int count, char** arguments) { return topicdb::replication::Run(count, arguments); }
