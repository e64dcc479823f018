// Measures a replicated shard: three sites in processes of their own on this machine, beside a
// local database. The program prints what the disk takes for an fsync, since that decides most
// figures.
//
//   topicdb_cluster_bench [--rows N] [--rounds N] [--kills N] [--only C1..C8] [--directory PATH]
//                         [--gigabytes N]
//
// With --gigabytes, C5 and C6 are measured once more, with so much data at each site.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/site_process.h"
#include "cluster_figures.h"

namespace topicdb::replication {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
  Load(&cluster, &leader);
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
    else if (name == "--gigabytes")
      options.gigabytes = std::atoi(value);
    else if (name == "--directory")
      options.directory = value;
    else if (name == "--only")
      options.only = value;
    else
      Fail("unknown option " + name +
           ": give --rows, --rounds, --kills, --gigabytes, --only or --directory");
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
  if (measures("C4")) MeasureShards(options);
  if (measures("C8")) MeasureSpace(options);
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
  if (options.gigabytes > 0) MeasureLarge(options);
  return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}

}  // namespace
}  // namespace topicdb::replication

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() == 4 && given[0] == topicdb::replication::kLocalCommand) {
    return topicdb::replication::AppendInThisProcess({given.begin() + 1, given.end()});
  }
  return topicdb::replication::Run(count, arguments);
}
