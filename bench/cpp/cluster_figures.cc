#include "cluster_figures.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "topicdb/database.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kLoadPatience(30);

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

}  // namespace

void Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double Median(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  return figures[figures.size() / 2];
}

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

double MegabytesIn(const std::string& directory) {
  std::uintmax_t bytes = 0;
  std::error_code gone;  // a site removes files meanwhile
  auto file = std::filesystem::recursive_directory_iterator(directory, gone);
  for (; !gone && file != std::filesystem::end(file); file.increment(gone)) {
    std::error_code failed;
    const std::uintmax_t size = file->is_regular_file(failed) ? file->file_size(failed) : 0;
    if (!failed) bytes += size;
  }
  return static_cast<double>(bytes) / 1e6;
}

Turn AppendTo(const std::string& path, const MetricsLoad& load, int shards) {
  OpenOptions options;
  options.schema.shards = static_cast<std::uint32_t>(shards);
  auto database = Database::Open(path, options).value();
  const auto began = Clock::now();
  const double cpu = CpuSeconds();
  for (const auto& batch : load.batches()) {
    const auto receipt = database->Append(batch, Durability::kDisk);
    if (!receipt.ok()) Fail(receipt.status().message());
  }
  if (const Status flushed = database->Flush(); !flushed.ok()) Fail(flushed.message());
  return {Seconds(Clock::now() - began), CpuSeconds() - cpu};
}

void Prepare(SiteProcess* site, int rows, int turn) {
  site->Tell("prepare " + std::to_string(rows / kBatchRows) + " " + std::to_string(kBatchRows) +
             " " + std::to_string(turn));
}

double Load(Cluster* cluster, SiteProcess* site) {
  const auto began = Clock::now();
  const auto expect = [](const std::string& said) {
    // A site that leads no shard has nothing to seal.
    if (said != "ok" && !said.starts_with("refused: this site leads no shard")) Fail(said);
  };
  expect(site->Ask("load", kLoadPatience).value_or("no answer"));
  for (SiteProcess* other : cluster->sites()) {
    if (other == site || !other->is_running()) continue;
    expect(other->Ask("seal", kLoadPatience).value_or("no answer"));
  }
  return Seconds(Clock::now() - began);
}

}  // namespace topicdb::replication
