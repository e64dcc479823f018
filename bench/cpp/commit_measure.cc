#include "commit_measure.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

namespace topicdb::bench {

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double ProcessCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// What one thread has measured.
struct Lap {
  std::vector<float> latencies_us;
  std::uint64_t conflicts = 0;
};

void Repeat(const Step& step, double seconds, Lap* lap) {
  Clock::time_point before = Clock::now();
  const auto end =
      before + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (before < end) {
    lap->conflicts += step();
    const Clock::time_point after = Clock::now();
    const std::chrono::duration<float, std::micro> took = after - before;
    lap->latencies_us.push_back(took.count());
    before = after;
  }
}

double Quantile(std::vector<float>* figures, double part) {
  const auto last = static_cast<double>(figures->size() - 1);
  const auto place = figures->begin() + std::lround(last * part);
  std::nth_element(figures->begin(), place, figures->end());
  return static_cast<double>(*place);
}

std::string Describe(const std::string& what) { return what + ": " + std::strerror(errno); }

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

// Returns the type of the mount whose path is the longest beginning of this one.
std::string FileSystemOf(const std::string& directory) {
  const std::string path = std::filesystem::canonical(directory).string() + "/";
  std::ifstream file("/proc/self/mounts");
  std::string found = "unknown";
  std::size_t longest = 0;
  for (std::string line; std::getline(file, line);) {
    std::string device, mount, type;
    std::istringstream(line) >> device >> mount >> type;
    if (!mount.ends_with('/')) mount += '/';
    if (!path.starts_with(mount) || mount.size() < longest) continue;
    longest = mount.size();
    found = type;
  }
  return found;
}

// Returns the median time of appending 4 KiB with an fdatasync, as a log does it.
double FsyncMicros(const std::string& directory) {
  constexpr int kTimes = 101;
  const TempDir place(directory);
  const std::string path = place.path() + "/fsync";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) Fail(Describe(path));
  const std::string page(4096, 'x');
  std::vector<double> micros;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    const bool written = write(file, page.data(), page.size()) == 4096 && fdatasync(file) == 0;
    if (!written) Fail(Describe(path));
    micros.push_back(SecondsSince(begin) * 1e6);
  }
  close(file);
  return Median(std::move(micros));
}

}  // namespace

void Fail(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::_Exit(1);
}

double Median(std::vector<double> figures) {
  const std::size_t half = figures.size() / 2;
  std::sort(figures.begin(), figures.end());
  return figures.size() % 2 == 1 ? figures[half] : (figures[half - 1] + figures[half]) / 2;
}

TempDir::TempDir(const std::string& parent) : path_(parent + "/topicdb-commits-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) Fail(Describe(path_));
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::uint64_t Turn::Commits() const {
  return std::accumulate(commits.begin(), commits.end(), std::uint64_t{0});
}

Turn RunThreads(std::vector<Step>* steps, double seconds) {
  Turn turn;
  Clock::time_point begin;
  const auto start_clocks = [&]() noexcept {
    turn.cpu_s = -ProcessCpuSeconds();
    begin = Clock::now();
  };
  std::barrier ready(static_cast<std::ptrdiff_t>(steps->size()), start_clocks);
  std::vector<Lap> laps(steps->size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < steps->size(); ++i) {
    threads.emplace_back([&, i] {
      for (std::uint64_t n = 0; n < kWarmUpSteps; ++n) (*steps)[i]();
      ready.arrive_and_wait();
      Repeat((*steps)[i], seconds, &laps[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  turn.wall_s = SecondsSince(begin);
  turn.cpu_s += ProcessCpuSeconds();
  std::vector<float> latencies;
  for (const Lap& lap : laps) {
    turn.commits.push_back(lap.latencies_us.size());
    turn.conflicts += lap.conflicts;
    latencies.insert(latencies.end(), lap.latencies_us.begin(), lap.latencies_us.end());
  }
  turn.p50_us = Quantile(&latencies, 0.5);
  turn.p99_us = Quantile(&latencies, 0.99);
  return turn;
}

std::vector<std::pair<std::string, std::string>> MachineFacts(const std::string& directory) {
  struct statfs place{};
  if (statfs(directory.c_str(), &place) != 0) Fail(Describe(directory));
  const std::string type = FileSystemOf(directory);
  if (type == "tmpfs" || type == "ramfs") {
    Fail(directory + " is in memory (" + type + "), where fsync does nothing: give a --directory " +
         "on a disk");
  }
  utsname system{};
  uname(&system);
  double load[1] = {};
  getloadavg(load, 1);
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  char figures[2][64];
  std::snprintf(figures[0], sizeof figures[0], "%.2f", load[0]);
  std::snprintf(figures[1], sizeof figures[1], "%.0f us", FsyncMicros(directory));
  return {{"cpu", CpuModel()},
          {"cpus", std::to_string(std::thread::hardware_concurrency())},
          {"load before", figures[0]},
          {"memory_bytes", std::to_string(memory)},
          {"system", std::string(system.sysname) + " " + system.release},
          {"file system", type},
          {"4 KiB appended and fdatasynced", figures[1]}};
}

}  // namespace topicdb::bench
