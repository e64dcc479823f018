// Threads that repeat a step for a while, what that took, and the machine that it took place on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace topicdb::bench {

// Prints the error and ends the process, from any thread: there is nothing to measure any more.
[[noreturn]] void Fail(const std::string& what);

// REQUIRES: !figures.empty()
double Median(std::vector<double> figures);

// A new directory below another, gone with the object.
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

// Commits once, and returns how often it had to try again. Called by one thread only.
using Step = std::function<std::uint64_t()>;

// Steps of each thread before the clock starts: statements are prepared, structures learned.
inline constexpr std::uint64_t kWarmUpSteps = 1;

// One side for the time of one turn.
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

// Each step has a thread of its own.
Turn RunThreads(std::vector<Step>* steps, double seconds);

// (name, value): CPU, memory, system, the file system of `directory` and what an fsync takes there.
// Fails where there is nothing that could be fsynced.
std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& directory);

}  // namespace topicdb::bench
