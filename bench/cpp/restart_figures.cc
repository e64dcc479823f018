// The figures of sites that start anew, and lack much: C5 and C6.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cluster_figures.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Kills all sites, and starts them again, a few times, and prints how long that took.
void TimeRestarts(const Options& options, Cluster* cluster) {
  std::vector<double> times;
  for (int round = 0; round < options.rounds; ++round) {
    for (SiteProcess* site : cluster->sites()) site->Kill();
    const auto began = Clock::now();
    cluster->StartAll();
    while (!cluster->Append(1)) {
    }
    times.push_back(Seconds(Clock::now() - began));
  }
  std::printf(
      "C5 all killed and started, %.0f MB at each site: first acknowledgement after %.2f s\n",
      MegabytesIn(cluster->site(0).directory() + "/db"), Median(times));
}

// Starts a follower again that needs a snapshot, while a client appends. Prints how long the client
// waited, and how fast the snapshot came.
void TimeSnapshot(Cluster* cluster, SiteProcess* leader, SiteProcess* follower) {
  const auto began = Clock::now();
  cluster->StartAll();
  double gap = 0;
  std::uint64_t appends = 0;
  for (auto last = Clock::now();; ++appends) {
    while (!cluster->Append(10)) {
    }
    gap = std::max(gap, Seconds(Clock::now() - last));
    const auto state = follower->State();
    if (state.has_value() && state->applied + 10 > leader->AwaitState().last) break;
    last = Clock::now();
  }
  const double took = Seconds(Clock::now() - began);
  const double megabytes = MegabytesIn(follower->directory() + "/db/shards");
  std::printf(
      "C6 a replica gets a snapshot beside %llu appends: %.0f MB in %.2f s (%.0f MB/s), longest "
      "gap of acknowledgements %.2f s\n",
      static_cast<unsigned long long>(appends), megabytes, took, megabytes / took, gap);
}

}  // namespace

void MeasureRestart(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  Prepare(&leader, options.rows);
  Load(&cluster, &leader);
  cluster.AwaitEqual();
  TimeRestarts(options, &cluster);
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
  Load(&cluster, &leader);
  cluster.AppendUntilCut(applied);
  TimeSnapshot(&cluster, &leader, &follower);
}

void MeasureLarge(const Options& options) {
  const Place place(options.directory);
  Cluster cluster(place.path(), milliseconds(500));
  cluster.StartAll();
  SiteProcess& leader = cluster.Leader();
  SiteProcess& follower = cluster.site(leader.replica() % 3);
  const std::uint64_t applied = follower.AwaitState().applied;
  follower.Kill();
  double took = 0;
  int loads = 0;
  for (; MegabytesIn(leader.directory() + "/db/shards") < 1e3 * options.gigabytes; ++loads) {
    Prepare(&leader, options.rows, loads);
    took += Load(&cluster, &leader);
  }
  std::printf("C6 %.0f million messages were appended in %.0f s while the follower was away\n",
              1e-6 * loads * options.rows, took);
  cluster.AppendUntilCut(applied);
  TimeSnapshot(&cluster, &leader, &follower);
  TimeRestarts(options, &cluster);
}

}  // namespace topicdb::replication
