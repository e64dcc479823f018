// The figures of a cluster that is appended to: C1, C4 and C8.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cluster_figures.h"

namespace topicdb::replication {

namespace {

using std::chrono::milliseconds;

double CpuOf(Cluster* cluster) {
  double cpu = 0;
  for (const SiteProcess* site : cluster->sites()) {
    cpu += std::chrono::duration<double>(site->CpuTime()).count();
  }
  return cpu;
}

// What appending to a cluster took.
struct ClusterTurn {
  Turn turn;
  double fsyncs = 0;  // of the site that has most
};

// How a cluster is set up for a turn.
struct ClusterSetup {
  std::uint32_t shards = 1;
  bool counts_fsyncs = false;
};

ClusterTurn AppendToCluster(const Options& options, const ClusterSetup& setup) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500), setup.shards);
  for (SiteProcess* site : cluster.sites()) {
    if (setup.counts_fsyncs) site->CountFsyncs();
  }
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  for (std::uint32_t shard = 1; shard < setup.shards; ++shard) cluster.Leader(shard);
  Prepare(&leader, options.rows);
  std::vector<double> fsyncs;
  for (const SiteProcess* site : cluster.sites()) {
    fsyncs.push_back(static_cast<double>(site->fsyncs()));
  }
  const double cpu = CpuOf(&cluster);
  ClusterTurn result;
  result.turn.wall = Load(&cluster, &leader);
  cluster.AwaitEqual();
  result.turn.cpu = CpuOf(&cluster) - cpu;
  for (std::size_t i = 0; i < fsyncs.size(); ++i) {
    const double count = static_cast<double>(cluster.site(i).fsyncs()) - fsyncs[i];
    result.fsyncs = std::max(result.fsyncs, count);
  }
  return result;
}

// Returns a figure of /proc/PID/status in MB.
double MegabytesOf(pid_t process, const std::string& figure) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string word; file >> word;) {
    double kilobytes = 0;
    if (word == figure + ":" && file >> kilobytes) return kilobytes * 1024 / 1e6;
  }
  Fail("no " + figure + " in /proc");
}

// Has the peak of a process's memory begin anew.
void ForgetPeak(pid_t process) {
  std::ofstream("/proc/" + std::to_string(process) + "/clear_refs") << "5";
}

// What appending to a local database took.
struct LocalTurn {
  Turn turn;
  double megabytes = 0;  // by which the memory of its process has grown
};

// Appends to a local database in a process of its own, as each site is one: memory that a process
// touches for the first time costs it more.
LocalTurn AppendLocally(const Options& options, std::uint32_t shards) {
  const Place place(options.directory);
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() + " " +
                              kLocalCommand + " '" + place.path() + "/db' " +
                              std::to_string(shards) + " " + std::to_string(options.rows);
  std::FILE* const said = popen(command.c_str(), "r");
  LocalTurn found;
  const bool is_read = said != nullptr && std::fscanf(said, "%lf %lf %lf", &found.turn.wall,
                                                      &found.turn.cpu, &found.megabytes) == 3;
  if (said == nullptr || pclose(said) != 0 || !is_read) Fail("no answer from " + command);
  return found;
}

// Appends in turns to a local database and to a cluster, and prints the medians.
void CompareWithLocal(const Options& options, const MetricsLoad& load, std::uint32_t shards) {
  std::vector<double> wall[2];
  std::vector<double> cpu[2];
  for (int round = 0; round < options.rounds; ++round) {
    const Turn turns[] = {AppendLocally(options, shards).turn,
                          AppendToCluster(options, {shards, false}).turn};
    for (int side = 0; side < 2; ++side) {
      wall[side].push_back(turns[side].wall);
      cpu[side].push_back(turns[side].cpu);
    }
  }
  const double megabytes = static_cast<double>(load.bytes()) / 1e6;
  const char* const names[] = {"local, on disk", "three replicas"};
  for (int side = 0; side < 2; ++side) {
    std::printf("C1 append and seal, shards: %u, %-15s %8.3f s %8.1f MB/s %8.3f CPU s\n", shards,
                names[side], Median(wall[side]), megabytes / Median(wall[side]), Median(cpu[side]));
  }
  std::printf(
      "C1 shards: %u, replicated by local: %.2f (target 0.3); C8 CPU of all sites by local: %.2f "
      "(target 2.5)\n",
      shards, Median(wall[0]) / Median(wall[1]), Median(cpu[1]) / Median(cpu[0]));
}

}  // namespace

int AppendInThisProcess(const std::vector<std::string>& arguments) {
  const int rows = std::stoi(arguments.at(2));
  const MetricsLoad load(rows / kBatchRows, kBatchRows);
  const double before = MegabytesOf(getpid(), "VmRSS");
  ForgetPeak(getpid());
  const Turn turn = AppendTo(arguments.at(0), load, std::stoi(arguments.at(1)));
  std::printf("%.6f %.6f %.3f\n", turn.wall, turn.cpu, MegabytesOf(getpid(), "VmHWM") - before);
  return 0;
}

void MeasureThroughput(const Options& options) {
  const MetricsLoad load(options.rows / kBatchRows, kBatchRows);
  for (const std::uint32_t shards : {1U, 4U}) CompareWithLocal(options, load, shards);
}

void MeasureShards(const Options& options) {
  const MetricsLoad load(options.rows / kBatchRows, kBatchRows);
  const double megabytes = static_cast<double>(load.bytes()) / 1e6;
  const std::uint32_t counts[] = {1, 16};
  std::vector<double> local[2];
  std::vector<double> wall[2];
  std::vector<double> fsyncs[2];
  for (int round = 0; round < options.rounds; ++round) {
    for (int side = 0; side < 2; ++side) {
      local[side].push_back(AppendLocally(options, counts[side]).turn.wall);
      const ClusterTurn turn = AppendToCluster(options, {counts[side], true});
      wall[side].push_back(turn.turn.wall);
      fsyncs[side].push_back(turn.fsyncs / megabytes);
    }
  }
  for (int side = 0; side < 2; ++side) {
    std::printf("C4 %2u shards: %8.1f MB/s, %.2f fsyncs for each MB at the site that has most\n",
                counts[side], megabytes / Median(wall[side]), Median(fsyncs[side]));
  }
  std::printf(
      "C4 16 shards by one: throughput %.2f (target 1; of a local database %.2f), fsyncs %.2f "
      "(target 1.5)\n",
      Median(wall[0]) / Median(wall[1]), Median(local[0]) / Median(local[1]),
      Median(fsyncs[1]) / Median(fsyncs[0]));
}

void MeasureSpace(const Options& options) {
  const MetricsLoad load(options.rows / kBatchRows, kBatchRows);
  const double local = AppendLocally(options, 1).megabytes;
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  const SiteProcess& follower = cluster.site(leader.replica() % 3);
  Prepare(&leader, options.rows);
  std::vector<double> before;
  const SiteProcess* const measured[] = {&leader, &follower};
  for (const SiteProcess* site : measured) {
    before.push_back(MegabytesOf(site->process(), "VmRSS"));
    ForgetPeak(site->process());
  }
  Load(&cluster, &leader);
  cluster.AwaitEqual();
  std::vector<double> grown;
  for (int i = 0; i < 2; ++i) {
    grown.push_back(MegabytesOf(measured[i]->process(), "VmHWM") - before[i]);
  }
  std::printf(
      "C8 memory while appending: a local database grows by %.0f MB, a leader by %.0f MB, a "
      "follower by %.0f MB (target: 128 MiB above local)\n",
      local, grown[0], grown[1]);

  const Place other(options.directory);
  Cluster uncut(other.path(), milliseconds(500));
  uncut.set_flush_bytes(std::uint64_t{64} << 30);  // so that the log keeps all of it
  uncut.StartAll();
  SiteProcess& leads = uncut.Leader();
  Prepare(&leads, options.rows);
  Load(&uncut, &leads);
  uncut.AwaitEqual();
  const double log = MegabytesIn(leads.directory() + "/db/site/log");
  const double raw = static_cast<double>(load.bytes()) / 1e6;
  std::printf(
      "C8 log of a site by the bytes that were appended: %.0f MB by %.0f MB, %.2f (target 1.5)\n",
      log, raw, log / raw);
}

}  // namespace topicdb::replication
