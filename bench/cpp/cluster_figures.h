// What the figures of a cluster share.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "cluster/metrics_load.h"
#include "cluster/site_process.h"

namespace topicdb::replication {

inline constexpr int kBatchRows = 10'000;

struct Options {
  int rows = 500'000;
  int rounds = 5;
  int kills = 20;
  int seconds = 3;  // for each figure of latency
  int appends = 2'000;
  int gigabytes = 0;  // at each site, for MeasureLarge
  std::string only;   // the figure that is measured; empty: all
  std::string directory = std::filesystem::temp_directory_path();
};

// A directory that is removed at its end.
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

// Prints why a figure could not be measured, and ends the program.
[[noreturn]] void Fail(const std::string& why);
double Seconds(std::chrono::steady_clock::duration time);
double Median(std::vector<double> figures);
// Returns the median time of an fdatasync after 64 KiB, in milliseconds.
double FsyncMilliseconds(const std::string& directory);
// Returns the size of the files in a directory, in MB.
double MegabytesIn(const std::string& directory);

// Appends the metrics to a local database, and closes it.
Turn AppendTo(const std::string& path, const MetricsLoad& load, int shards = 1);
// Has a site make metrics, other and later ones in each turn, so that making them counts on neither
// side.
void Prepare(SiteProcess* site, int rows, int turn = 0);
// Appends the metrics at this site, and seals all shards where they are led. Returns how many
// seconds that took.
double Load(Cluster* cluster, SiteProcess* site);

// With this argument the program does AppendInThisProcess with those that follow, and nothing else.
inline constexpr char kLocalCommand[] = "--append-locally";
// Appends metrics to a new local database: the arguments are its directory, its shards, and how
// many messages. Prints the seconds, the CPU seconds, and by how many MB the process has grown.
int AppendInThisProcess(const std::vector<std::string>& arguments);

// Each of these prints what it has measured. C1, and the CPU time of C8: the throughput beside a
// local database, with one shard and with four.
void MeasureThroughput(const Options& options);
// C4: 16 shards beside one.
void MeasureShards(const Options& options);
// The rest of C8: the bytes of the log, and the memory.
void MeasureSpace(const Options& options);
// C5: all sites are killed and started.
void MeasureRestart(const Options& options);
// C6: a site lacks so much that it needs a snapshot.
void MeasureSnapshot(const Options& options);
// C5 and C6 with many gigabytes.
void MeasureLarge(const Options& options);

}  // namespace topicdb::replication
