// Measures the buffer queue, and plain writing and reading of checksummed records, in one table.
//
// Plain records have a header of 13 bytes with a CRC-32, and pass through a buffer of 64 KiB, as in
// EMQX's replayq. A process that is killed loses what is in the buffer. The queue buffers as much
// with the durability "none". With "os", it hands every append to the operating system before it
// returns.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes/crc32.h"
#include "base/bytes/hash.h"
#include "base/file/file.h"
#include "commit_measure.h"
#include "topicdb/queue.h"

namespace topicdb::bench {
namespace {

constexpr std::size_t kPlainBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kPlainHeaderBytes = 13;
constexpr std::uint64_t kSeed = 20'260'101;

struct Options {
  int rounds = 7;
  std::uint64_t bytes = std::uint64_t{100} << 20;     // a turn appends a quarter of it
  std::uint64_t open_bytes = std::uint64_t{1} << 30;  // of the queue that is opened and drained
  std::string directory = std::filesystem::temp_directory_path();
  std::string only;  // the name of one case, such as "100 B x 1", or "open"; empty: all
};

// ---- What is measured.

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns a figure of /proc/self/status in MiB.
double StatusMib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kib = 0;
  while (status >> word) {
    if (word == name && status >> kib) return kib / 1'024;
  }
  return 0;
}

void Must(const Status& status) {
  if (!status.ok()) Fail(status.message());
}

template <typename T>
T Must(Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}

// Batches of items of one size. The batches begin at one of 256 items in turn.
class Items {
 public:
  Items(std::size_t size, std::size_t batch) : batch_(batch) {
    std::mt19937_64 random(kSeed);
    for (std::size_t i = 0; i < 256 + batch; ++i) {
      std::string item(size, '\0');
      for (char& byte : item) byte = static_cast<char>(random());
      items_.push_back(std::move(item));
    }
    views_.assign(items_.begin(), items_.end());
  }
  std::span<const std::string_view> Batch(std::uint64_t number) const {
    return std::span(views_).subspan(number % 256, batch_);
  }

 private:
  const std::size_t batch_;
  std::vector<std::string> items_;
  std::vector<std::string_view> views_;
};

struct Digest {
  std::uint64_t value = 0;
  void Add(std::string_view item) { value = value * 31 + Hash64(item.substr(0, 64), item.size()); }
};

// ---- Sides.

std::unique_ptr<Queue> OpenQueue(const std::string& path, QueueMode mode, Durability durability) {
  QueueOptions options;
  options.mode = mode;
  options.durability = durability;
  options.bytes_max = UINT64_MAX / 2;
  return Must(Queue::Open(path, options));
}

class PlainWriter {
 public:
  explicit PlainWriter(const std::string& path) : file_(Must(File::Create(path))) {}
  void Append(std::span<const std::string_view> items) {
    for (const std::string_view item : items) {
      const std::uint32_t crc = Crc32(item);
      const auto size = static_cast<std::uint32_t>(item.size());
      char header[kPlainHeaderBytes] = {1};
      std::memcpy(header + 5, &crc, sizeof crc);
      std::memcpy(header + 9, &size, sizeof size);
      buffer_.append(header, sizeof header);
      buffer_.append(item);
    }
    if (buffer_.size() >= kPlainBufferBytes) Flush();
  }
  void Flush() {
    Must(file_->WriteAt(offset_, buffer_));
    offset_ += buffer_.size();
    buffer_.clear();
  }
  const File& file() const { return *file_; }

 private:
  std::shared_ptr<File> file_;
  std::string buffer_;
  std::uint64_t offset_ = 0;
};

// Reads and checks all records of a plain file.
void ReadPlain(const std::string& path, Digest* digest) {
  const auto file = Must(File::OpenForReading(path));
  std::string buffer(4 * kPlainBufferBytes, '\0');
  std::size_t size = 0;
  for (std::uint64_t offset = 0;;) {
    const std::size_t count =
        Must(file->ReadAt(offset, buffer.data() + size, buffer.size() - size));
    offset += count;
    size += count;
    std::size_t at = 0;
    while (size - at >= kPlainHeaderBytes) {
      std::uint32_t crc = 0;
      std::uint32_t bytes = 0;
      std::memcpy(&crc, buffer.data() + at + 5, sizeof crc);
      std::memcpy(&bytes, buffer.data() + at + 9, sizeof bytes);
      if (size - at < kPlainHeaderBytes + bytes) break;
      const std::string_view item(buffer.data() + at + kPlainHeaderBytes, bytes);
      if (Crc32(item) != crc) Fail("a plain record is damaged");
      digest->Add(item);
      at += kPlainHeaderBytes + bytes;
    }
    std::memmove(buffer.data(), buffer.data() + at, size - at);
    size -= at;
    if (count == 0) return;
  }
}

void Drain(QueueCursor& cursor, std::size_t batch, Digest* digest, double* slowest_s = nullptr) {
  PopLimits limits;
  limits.count = batch;
  limits.bytes = UINT64_MAX;
  Delivery popped;
  while (true) {
    const double begun = slowest_s == nullptr ? 0 : WallSeconds();
    Must(cursor.PopInto(&popped, limits, std::chrono::microseconds(0)));
    if (slowest_s != nullptr) *slowest_s = std::max(*slowest_s, WallSeconds() - begun);
    if (popped.empty()) return;
    for (const std::string_view item : popped.items) digest->Add(item);
    const double acknowledging = slowest_s == nullptr ? 0 : WallSeconds();
    Must(cursor.Ack(popped.ranges));
    if (slowest_s != nullptr) {
      *slowest_s = std::max(*slowest_s, WallSeconds() - acknowledging);
    }
  }
}

// ---- Rows.

// CPU time of an item in ns: for each side, one figure a round.
using Figures = std::vector<std::vector<double>>;

std::string Ns(const std::vector<double>& figures) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", Median(figures));
  return text;
}

void PrintRow(const std::string& work, const std::string& measured, const std::string& note) {
  std::printf("%-34s %-44s %s\n", work.c_str(), measured.c_str(), note.c_str());
  std::fflush(stdout);
}

struct Case {
  std::size_t size;
  std::size_t batch;
  const char* append_target;
  const char* pop_target;
};
constexpr Case kCases[] = {
    {100, 1, "none 250", "60"},           {100, 100, "80", "60"},     {100, 1'000, "70", "60"},
    {1'024, 1, "none 700, os 1800", "-"}, {1'024, 100, "600", "350"}, {10'240, 100, "6000", "-"},
};

std::string NameOf(const Case& row) {
  const std::string size =
      row.size < 1'024 ? std::to_string(row.size) + " B" : std::to_string(row.size >> 10) + " KiB";
  return size + " x " + std::to_string(row.batch);
}

// Appends the items of a turn to a queue, and reads them back. Notes the CPU time of each.
void RunQueueTurn(const Options& options, const Case& row, const Items& items, QueueMode mode,
                  Durability durability, std::vector<double>* append, std::vector<double>* pop,
                  Digest* digest) {
  const TempDir directory(options.directory);
  const std::uint64_t batches =
      std::max<std::uint64_t>(options.bytes / row.size / row.batch / 4, 1);
  const auto count = static_cast<double>(batches * row.batch);
  const auto queue =
      OpenQueue(mode == QueueMode::kMemory ? "" : directory.path() + "/q", mode, durability);
  double begun = CpuSeconds();
  for (std::uint64_t i = 0; i < batches; ++i) Must(queue->Append(items.Batch(i)));
  append->push_back((CpuSeconds() - begun) * 1e9 / count);
  const auto cursor = Must(queue->Cursor(std::string(kDefaultCursor)));
  begun = CpuSeconds();
  Drain(*cursor, row.batch, digest);
  pop->push_back((CpuSeconds() - begun) * 1e9 / count);
}

void RunPlainTurn(const Options& options, const Case& row, const Items& items,
                  std::vector<double>* append, std::vector<double>* pop, Digest* digest) {
  const TempDir directory(options.directory);
  const std::uint64_t batches =
      std::max<std::uint64_t>(options.bytes / row.size / row.batch / 4, 1);
  const auto count = static_cast<double>(batches * row.batch);
  double begun = CpuSeconds();
  {
    PlainWriter writer(directory.path() + "/plain");
    for (std::uint64_t i = 0; i < batches; ++i) writer.Append(items.Batch(i));
    writer.Flush();
  }
  append->push_back((CpuSeconds() - begun) * 1e9 / count);
  begun = CpuSeconds();
  ReadPlain(directory.path() + "/plain", digest);
  pop->push_back((CpuSeconds() - begun) * 1e9 / count);
}

// Pops and acknowledges each batch in memory before it appends the next one. Returns the CPU time
// of an item in ns.
double RunMemoryTurn(const Options& options, const Case& row, const Items& items, Digest* digest) {
  const std::uint64_t batches =
      std::max<std::uint64_t>(options.bytes / row.size / row.batch / 4, 1);
  const auto queue = OpenQueue("", QueueMode::kMemory, Durability::kNone);
  const auto cursor = Must(queue->Cursor(std::string(kDefaultCursor)));
  PopLimits limits;
  limits.count = row.batch;
  limits.bytes = UINT64_MAX;
  Delivery popped;
  const double begun = CpuSeconds();
  for (std::uint64_t i = 0; i < batches; ++i) {
    Must(queue->Append(items.Batch(i)));
    Must(cursor->PopInto(&popped, limits, std::chrono::microseconds(0)));
    for (const std::string_view item : popped.items) digest->Add(item);
    Must(cursor->Ack(popped.ranges));
  }
  return (CpuSeconds() - begun) * 1e9 / static_cast<double>(batches * row.batch);
}

void MeasureItems(const Options& options, const Case& row) {
  const Items items(row.size, row.batch);
  std::vector<double> lockstep;
  Figures append(4);
  Figures pop(4);
  std::vector<Digest> digests(5);
  for (int round = 0; round < options.rounds; ++round) {
    RunQueueTurn(options, row, items, QueueMode::kDisk, Durability::kNone, &append[0], &pop[0],
                 &digests[0]);
    RunQueueTurn(options, row, items, QueueMode::kDisk, Durability::kOs, &append[1], &pop[1],
                 &digests[1]);
    RunPlainTurn(options, row, items, &append[2], &pop[2], &digests[2]);
    RunQueueTurn(options, row, items, QueueMode::kMemory, Durability::kNone, &append[3], &pop[3],
                 &digests[3]);
    lockstep.push_back(RunMemoryTurn(options, row, items, &digests[4]));
  }
  for (const Digest& digest : digests) {
    if (digest.value != digests[0].value) Fail("the sides have read different items");
  }
  PrintRow("append " + NameOf(row),
           "none " + Ns(append[0]) + ", os " + Ns(append[1]) + ", plain " + Ns(append[2]) + " ns",
           std::string("target ") + row.append_target);
  PrintRow("pop + ack " + NameOf(row), "disk " + Ns(pop[0]) + ", plain read " + Ns(pop[2]) + " ns",
           std::string("target ") + row.pop_target);
  std::vector<double> both;
  for (std::size_t i = 0; i < append[3].size(); ++i) both.push_back(append[3][i] + pop[3][i]);
  char digest[32];
  std::snprintf(digest, sizeof digest, "digest %016llx",
                static_cast<unsigned long long>(digests[0].value));
  PrintRow("memory, all three, " + NameOf(row),
           Ns(lockstep) + " ns, filled and then drained " + Ns(both) + " ns",
           row.size == 1'024 && row.batch == 100 ? std::string("target 150; ") + digest : digest);
}

void MeasureDurable(const Options& options) {
  const Items items(1'024, 100);
  std::vector<double> queue_s;
  std::vector<double> plain_s;
  std::vector<double> group_rate;
  std::vector<double> single_rate;
  constexpr int kAppends = 50;
  for (int round = 0; round < options.rounds; ++round) {
    const TempDir directory(options.directory);
    const auto queue = OpenQueue(directory.path() + "/q", QueueMode::kDisk, Durability::kDisk);
    Must(queue->Append(items.Batch(0)));
    double begun = WallSeconds();
    for (int i = 0; i < kAppends; ++i) Must(queue->Append(items.Batch(1)));
    queue_s.push_back((WallSeconds() - begun) / kAppends);
    PlainWriter plain(directory.path() + "/plain");
    plain.Append(items.Batch(0));
    begun = WallSeconds();
    for (int i = 0; i < kAppends; ++i) {
      plain.Append(items.Batch(1));
      Must(plain.file().Sync());
    }
    plain_s.push_back((WallSeconds() - begun) / kAppends);
    for (const int threads : {1, 8}) {
      begun = WallSeconds();
      std::vector<std::thread> writers;
      for (int thread = 0; thread < threads; ++thread) {
        writers.emplace_back([&] {
          for (int i = 0; i < kAppends; ++i) Must(queue->Append(items.Batch(2).first(1)));
        });
      }
      for (std::thread& writer : writers) writer.join();
      const double rate = threads * kAppends / (WallSeconds() - begun);
      (threads == 1 ? single_rate : group_rate).push_back(rate);
    }
  }
  char text[128];
  std::snprintf(text, sizeof text, "%.2f ms, write + fdatasync %.2f ms: %.2f x",
                Median(queue_s) * 1e3, Median(plain_s) * 1e3, Median(queue_s) / Median(plain_s));
  PrintRow("durable append 1 KiB x 100", text, "target at most 1.3 x");
  std::snprintf(text, sizeof text, "%.0f/s, one writer %.0f/s: %.1f x", Median(group_rate),
                Median(single_rate), Median(group_rate) / Median(single_rate));
  PrintRow("durable append of 8 writers", text, "target at least 4 x");
}

// Runs `body` in a child process, and returns the figures that it returns. The child begins with
// the memory that this process has.
template <typename Body>
std::vector<double> InChild(Body body) {
  int ends[2];
  if (pipe(ends) != 0) Fail("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<double> figures = body();
    const auto bytes = static_cast<ssize_t>(figures.size() * sizeof(double));
    _exit(write(ends[1], figures.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1);
  }
  close(ends[1]);
  std::vector<double> figures(8);
  const ssize_t bytes = read(ends[0], figures.data(), figures.size() * sizeof(double));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 || bytes <= 0) Fail("a child process failed");
  figures.resize(static_cast<std::size_t>(bytes) / sizeof(double));
  return figures;
}

void MeasureOpen(const Options& options, std::size_t size) {
  const TempDir directory(options.directory);
  const std::string path = directory.path() + "/q";
  const std::string crashed = directory.path() + "/crashed";
  Digest written;
  InChild([&] {
    const Items items(size, 100);
    const auto queue = OpenQueue(path, QueueMode::kDisk, Durability::kOs);
    for (std::uint64_t i = 0; i < options.open_bytes / size / 100; ++i) {
      Must(queue->Append(items.Batch(i)));
    }
    std::filesystem::copy(path, crashed);  // as a kill -9 would leave it
    Must(queue->Close());
    return std::vector<double>{0};
  });
  const auto open_and_drain = [&](const std::string& from, bool drain) {
    return InChild([&] {
      const double idle = StatusMib("VmRSS:");
      const double begun = WallSeconds();
      const auto queue = OpenQueue(from, QueueMode::kDisk, Durability::kOs);
      const double opened = WallSeconds() - begun;
      double slowest = 0;
      Digest digest;
      if (drain) Drain(*Must(queue->Cursor(std::string(kDefaultCursor))), 100, &digest, &slowest);
      return std::vector<double>{opened * 1e3, StatusMib("VmHWM:") - idle, slowest * 1e3};
    });
  };
  std::vector<double> clean;
  for (int i = 0; i < 5; ++i) clean.push_back(open_and_drain(path, false)[0]);
  const std::vector<double> after_crash = open_and_drain(crashed, false);
  std::vector<double> memory_mib;
  std::vector<double> slowest_ms;
  for (int i = 0; i < 5; ++i) {
    const TempDir drained(options.directory);
    std::filesystem::copy(path, drained.path() + "/q");
    const std::vector<double> figures = open_and_drain(drained.path() + "/q", true);
    memory_mib.push_back(figures[1]);
    slowest_ms.push_back(figures[2]);
  }
  const std::string name =
      std::to_string(options.open_bytes >> 20) + " MiB of " + std::to_string(size) + " B";
  char text[128];
  std::snprintf(text, sizeof text, "%.1f ms, after a crash %.1f ms", Median(clean), after_crash[0]);
  PrintRow("open " + name, text, "target 50, 300 ms");
  std::snprintf(text, sizeof text, "%.1f MiB above idle, slowest pop or ack %.2f ms",
                Median(memory_mib), Median(slowest_ms));
  PrintRow("drain " + name, text, "target 16 MiB, 1 ms");
}

Options ParseOptions(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    const std::string value = arguments[i + 1];
    if (name == "--rounds") options.rounds = std::stoi(value);
    if (name == "--mib") options.bytes = std::stoull(value) << 20;
    if (name == "--open-mib") options.open_bytes = std::stoull(value) << 20;
    if (name == "--directory") options.directory = value;
    if (name == "--only") options.only = value;
  }
  return options;
}

int Main(int count, char** arguments) {
  const Options options = ParseOptions(count, arguments);
  for (const auto& [name, value] : MachineFacts(options.directory)) {
    std::printf("%s: %s\n", name.c_str(), value.c_str());
  }
  std::printf("Medians of %d rounds; CPU time of an item, unless ms are said\n\n", options.rounds);
  // Forks come first, while this process is small: children begin with the memory that it has.
  if (options.only.empty() || options.only == "open") {
    MeasureOpen(options, 1'024);
    MeasureOpen(options, 100);
  }
  for (const Case& row : kCases) {
    if (options.only.empty() || options.only == NameOf(row)) MeasureItems(options, row);
  }
  if (options.only.empty()) MeasureDurable(options);
  return 0;
}

}  // namespace
}  // namespace topicdb::bench

int main(int count, char** arguments) { return topicdb::bench::Main(count, arguments); }
