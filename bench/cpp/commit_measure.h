// Runs threads that repeat a step for a while, measures them, and describes the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace topicdb::bench {

// Prints the error and ends the process, since there is nothing to measure any more. Thread-safe.
[[noreturn]] void Fail(const std::string& what);

// REQUIRES: !figures.empty()
double Median(std::vector<double> figures);

// A new directory in `parent`. The destructor removes it with all that is in it.
class TempDir {
 public:
  explicit TempDir(const std::string& parent);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Commits once, and returns how often it had to try again. Only one thread calls it.
using Step = std::function<std::uint64_t()>;

// How many steps each thread takes before the clock starts, to prepare statements and learn
// structures.
inline constexpr std::uint64_t kWarmUpSteps = 1;

// What was measured of one side in one turn.
struct Turn {
  double wall_s = 0;
  double cpu_s = 0;  // of all threads of the process
  double p50_us = 0;
  double p99_us = 0;
  std::uint64_t conflicts = 0;
  std::vector<std::uint64_t> commits;  // by thread, without kWarmUpSteps

  std::uint64_t Commits() const;
  double PerSecond() const { return static_cast<double>(Commits()) / wall_s; }
  double CpuMicros() const { return cpu_s * 1e6 / static_cast<double>(Commits()); }
  double Conflicts() const { return static_cast<double>(conflicts); }
};

// Repeats each step in a thread of its own, for `seconds`.
Turn RunThreads(std::vector<Step>* steps, double seconds);

// Returns facts about the machine as (name, value): CPU, load, memory, system, the file system of
// `directory`, and how long an fsync takes there. Fails if that file system is in memory, where an
// fsync does nothing.
std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& directory);

}  // namespace topicdb::bench
