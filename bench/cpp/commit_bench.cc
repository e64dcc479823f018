// Measures appends and transactions, and the latency of each, in one table. SQLite and RocksDB do
// the same transactions. Every turn begins with an empty store, writes for a fixed time, closes the
// store, opens it again, and looks for all that was acknowledged. If something is missing, the
// program ends with an error.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commit_measure.h"
#include "commit_peers.h"
#include "topicdb/database.h"

namespace topicdb::bench {
namespace {

constexpr std::size_t kThreads = 8;
constexpr std::size_t kSharedCounter = kThreads;  // behind the counters of the threads
constexpr std::size_t kValueBytes = 100;

struct Options {
  double seconds = 0.5;  // how long a turn takes
  int rounds = 9;
  std::uint64_t seed = 20'260'101;
  std::string directory = std::filesystem::temp_directory_path();
  std::string only;  // the name of the rows to measure; empty: all rows
};

// ---- Rows.

void PrintRow(const std::string& row, const std::string& what, const std::string& measured,
              const std::string& note) {
  std::printf("%-3s %-39s %-18s %s\n", row.c_str(), what.c_str(), measured.c_str(), note.c_str());
  std::fflush(stdout);
}

std::string Format(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

double MedianOf(const std::vector<Turn>& turns, const std::function<double(const Turn&)>& figure) {
  std::vector<double> figures;
  for (const Turn& turn : turns) figures.push_back(figure(turn));
  return Median(std::move(figures));
}

std::string P50(const std::vector<Turn>& turns) {
  return Format("p50 %.1f us", MedianOf(turns, [](const Turn& turn) { return turn.p50_us; }));
}

std::string P99(const std::vector<Turn>& turns) {
  return Format("p99 %.1f us", MedianOf(turns, [](const Turn& turn) { return turn.p99_us; }));
}

std::string Rate(const std::vector<Turn>& turns, const char* unit) {
  return Format("%.0f ", MedianOf(turns, &Turn::PerSecond)) + unit;
}

std::string CpuTime(const std::vector<Turn>& turns) {
  return Format("%.1f us CPU each", MedianOf(turns, &Turn::CpuMicros));
}

double BestRate(const std::vector<Turn>& turns) {
  double best = 0;
  for (const Turn& turn : turns) best = std::max(best, turn.PerSecond());
  return best;
}

// What a ratio should be at least, and the highest one that is credible: a higher one comes from a
// machine that stalls.
struct Target {
  double least = 0;
  double credible = std::numeric_limits<double>::infinity();
};

std::string Verdict(double ratio, const Target& target) {
  if (ratio > target.credible) return Format("not judged, above %.0f x", target.credible);
  return ratio >= target.least ? "met" : "MISSED";
}

// Returns the median of the ratios of all rounds, as a text. Turns of one round share the state of
// the machine.
std::string Ratio(const std::vector<Turn>& turns, const std::vector<Turn>& base,
                  const std::string& format, const std::optional<Target>& target) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < turns.size(); ++round) {
    ratios.push_back(turns[round].PerSecond() / base[round].PerSecond());
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const double median = Median(ratios);
  std::string text = "; " + Format(format.c_str(), median) + Format(" (%.2f", *least) +
                     Format(" to %.2f, best rounds ", *most) +
                     Format("%.2f)", BestRate(turns) / BestRate(base));
  if (!target.has_value()) return text;
  return text + Format(", target %.1f: ", target->least) + Verdict(median, *target);
}

// Lets the sides take turns. Each round begins with another side. Before a turn, whatever else was
// written to the file system goes to the disk, since an fsync can wait for it.
std::vector<std::vector<Turn>> TakeTurns(
    const Options& options, std::size_t sides,
    const std::function<Turn(std::size_t side, int round, const std::string& directory)>& turn) {
  std::vector<std::vector<Turn>> turns(sides);
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < sides; ++i) {
      const std::size_t side = (i + static_cast<std::size_t>(round)) % sides;
      const TempDir directory(options.directory);
      sync();
      turns[side].push_back(turn(side, round, directory.path()));
    }
  }
  return turns;
}

// ---- One-message appends.

struct AppendCase {
  const char* name;
  std::size_t threads;
  Durability durability;
};
constexpr AppendCase kAppendCases[] = {{"disk, 1 thread", 1, Durability::kDisk},
                                       {"disk, 8 threads", kThreads, Durability::kDisk},
                                       {"os, 1 thread", 1, Durability::kOs},
                                       {"os, 8 threads", kThreads, Durability::kOs},
                                       {"none, 1 thread", 1, Durability::kNone}};

std::unique_ptr<Database> OpenDatabase(const std::string& path) {
  auto database = Database::Open(path, OpenOptions{});
  if (!database.ok()) Fail(database.status().message());
  return std::move(*database);
}

std::string AppendTopic(std::size_t thread) { return "bench/append/" + std::to_string(thread); }

// Each value begins with its number, which each thread counts from zero.
Step AppendStep(Database* database, std::size_t thread, Durability durability) {
  return [=, topic = AppendTopic(thread), next = std::uint64_t{0},
          value = std::string(kValueBytes, 'v')]() mutable -> std::uint64_t {
    std::memcpy(value.data(), &next, sizeof next);
    ++next;
    const MessageView message{topic, kAssignTimestamp, value};
    const auto receipt = database->Append(std::span(&message, 1), durability);
    if (!receipt.ok()) Fail("append: " + receipt.status().message());
    return 0;
  };
}

// Fails unless every topic holds 0, 1, 2, … up to the last message that its thread has stored.
void CheckAppends(const std::string& path, const Turn& turn) {
  const auto database = OpenDatabase(path);
  const auto everything = Filter::Parse("#");
  if (!everything.ok()) Fail(everything.status().message());
  const auto scan = database->NewScan(*everything, ScanOptions{});
  if (!scan.ok()) Fail(scan.status().message());
  std::map<std::string, std::uint64_t> found;
  while (true) {
    const auto batch = (*scan)->Next(PageLimits{});
    if (!batch.ok()) Fail(batch.status().message());
    if (*batch == nullptr) break;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      std::uint64_t number = 0;
      std::memcpy(&number, (*batch)->value(row).data(), sizeof number);
      std::uint64_t& expected = found[std::string((*batch)->topic(row))];
      if (number != expected++) Fail("append: a message is missing or out of order");
    }
  }
  for (std::size_t thread = 0; thread < turn.commits.size(); ++thread) {
    const std::uint64_t stored = turn.commits[thread] + kWarmUpSteps;
    const std::uint64_t read = found[AppendTopic(thread)];
    if (read == stored) continue;
    Fail("append: thread " + std::to_string(thread) + " stored " + std::to_string(stored) +
         " messages, " + std::to_string(read) + " are there");
  }
}

Turn AppendTurn(const Options& options, const AppendCase& kind, const std::string& directory) {
  const std::string path = directory + "/topicdb";
  auto database = OpenDatabase(path);
  std::vector<Step> steps;
  for (std::size_t thread = 0; thread < kind.threads; ++thread) {
    steps.push_back(AppendStep(database.get(), thread, kind.durability));
  }
  Turn turn = RunThreads(&steps, options.seconds);
  database.reset();
  CheckAppends(path, turn);
  return turn;
}

std::uint64_t MeasureAppends(const Options& options) {
  const auto turns = TakeTurns(options, std::size(kAppendCases),
                               [&](std::size_t side, int, const std::string& directory) {
                                 return AppendTurn(options, kAppendCases[side], directory);
                               });
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const bool fsynced = i < 2;
    std::string ratio;
    if (i == 1) ratio = Ratio(turns[1], turns[0], "%.2f x 1 thread", Target{5, kThreads});
    if (i == 3) ratio = Ratio(turns[3], turns[2], "%.2f x 1 thread", std::nullopt);
    PrintRow(fsynced ? "C1" : "C1i", std::string("append a message, ") + kAppendCases[i].name,
             Rate(turns[i], "commits/s"), CpuTime(turns[i]) + ratio);
    for (const Turn& turn : turns[i]) done += turn.Commits();
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    PrintRow("C3", std::string("latency of an append, ") + kAppendCases[i].name, P50(turns[i]),
             P99(turns[i]));
  }
  return done;
}

// ---- Read-modify-write transactions.

struct CounterCase {
  const char* name;
  std::size_t threads;
  bool contended;
};
constexpr CounterCase kCounterCases[] = {{"own keys, 1 thread", 1, false},
                                         {"own keys, 8 threads", kThreads, false},
                                         {"half on one key, 8 threads", kThreads, true}};

// What one thread has added to each counter.
using Tally = std::vector<std::uint64_t>;

Step CounterStep(CounterSession* session, std::size_t thread, bool contended, std::uint64_t seed,
                 Tally* tally) {
  std::seed_seq mixed{seed, std::uint64_t{thread}};
  return [=, random = std::mt19937_64(mixed)]() mutable -> std::uint64_t {
    const bool shared = contended && (random() >> 63) == 1;
    const std::size_t counter = shared ? kSharedCounter : thread;
    std::uint64_t conflicts = 0;
    while (!session->TryIncrement(counter)) ++conflicts;
    ++(*tally)[counter];
    return conflicts;
  };
}

void CheckCounters(Side side, const std::string& directory, bool fsync,
                   const std::vector<Tally>& tallies) {
  const auto store = OpenCounters(side, directory, fsync);
  for (std::size_t counter = 0; counter <= kSharedCounter; ++counter) {
    std::uint64_t expected = 0;
    for (const Tally& tally : tallies) expected += tally[counter];
    const std::uint64_t found = store->Read(counter);
    if (found == expected) continue;
    Fail(NameOf(side) + ": counter " + std::to_string(counter) + " is " + std::to_string(found) +
         " after " + std::to_string(expected) + " transactions");
  }
}

Turn CounterTurn(const Options& options, Side side, const CounterCase& kind, bool fsync, int round,
                 const std::string& directory) {
  auto store = OpenCounters(side, directory, fsync);
  std::vector<std::unique_ptr<CounterSession>> sessions;
  std::vector<Tally> tallies(kind.threads, Tally(kSharedCounter + 1));
  std::vector<Step> steps;
  for (std::size_t thread = 0; thread < kind.threads; ++thread) {
    sessions.push_back(store->NewSession());
    steps.push_back(CounterStep(sessions.back().get(), thread, kind.contended,
                                options.seed + static_cast<std::uint64_t>(round),
                                &tallies[thread]));
  }
  Turn turn = RunThreads(&steps, options.seconds);
  sessions.clear();
  store.reset();
  CheckCounters(side, directory, fsync, tallies);
  return turn;
}

std::uint64_t MeasureCounters(const Options& options, const std::string& row, bool fsync) {
  std::uint64_t done = 0;
  for (const CounterCase& kind : kCounterCases) {
    const auto turns = TakeTurns(
        options, kSides.size(), [&](std::size_t side, int round, const std::string& directory) {
          return CounterTurn(options, kSides[side], kind, fsync, round, directory);
        });
    for (std::size_t i = 0; i < kSides.size(); ++i) {
      std::string note = CpuTime(turns[i]) + ", " + P50(turns[i]) + ", " + P99(turns[i]);
      const double conflicts = MedianOf(turns[i], &Turn::Conflicts);
      if (kind.contended) note += Format(", %.0f conflicts retried", conflicts);
      if (kSides[i] != Side::kTopicDb) {
        const Target target{kSides[i] == Side::kSqlite ? 1 : 0.5};
        note += Ratio(turns[0], turns[i], "TopicDB is %.2f x as fast",
                      fsync ? std::optional(target) : std::nullopt);
      }
      PrintRow(row, std::string(kind.name) + ", " + NameOf(kSides[i]), Rate(turns[i], "tx/s"),
               note);
      for (const Turn& turn : turns[i]) done += turn.Commits();
    }
  }
  return done;
}

// ---- The program.

constexpr const char* kUsage =
    "topicdb_commit_bench [--seconds S] [--rounds N] [--seed N] [--directory DIR] [--only "
    "C1|C2|C2i]; see bench/README.md";

double ParseNumber(const std::string& name, const char* text) {
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(number > 0) || number > 1e15) {
    Fail(name + " " + text + ": not a number above zero");
  }
  return number;
}

Options ParseOptions(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) Fail(name + " needs a value, or is no option: " + kUsage);
    const char* const value = arguments[i + 1];
    if (name == "--seconds") {
      options.seconds = ParseNumber(name, value);
    } else if (name == "--rounds") {
      options.rounds = static_cast<int>(std::ceil(std::min(ParseNumber(name, value), 1e6)));
    } else if (name == "--seed") {
      options.seed = static_cast<std::uint64_t>(ParseNumber(name, value));
    } else if (name == "--directory") {
      options.directory = value;
    } else if (name == "--only") {
      options.only = value;
    } else {
      Fail("no option " + name + ": " + kUsage);
    }
  }
  if (!options.only.empty() && options.only != "C1" && options.only != "C2" &&
      options.only != "C2i") {
    Fail("--only " + options.only + ": " + kUsage);
  }
  return options;
}

void PrintFacts(const Options& options) {
  for (const auto& [name, value] : MachineFacts(options.directory)) {
    std::printf("%s: %s\n", name.c_str(), value.c_str());
  }
  std::printf("versions: RocksDB %s (below TopicDB and by itself), SQLite %s\n",
              RocksDbVersion().c_str(), SqliteVersion().c_str());
  std::printf("seed: %llu\nrounds: %d, turns of %g s, each with an empty store\n",
              static_cast<unsigned long long>(options.seed), options.rounds, options.seconds);
  std::printf(
      "Figures are medians of the rounds: wall time, and CPU time of all threads by commit. Ratios "
      "are\nmedians of each round's ratio (least to most, and that of each side's best round).\n"
      "C2: fsync at every commit on every side. C1i and C2i, for information: no fsync.\n\n");
}

void Run(const Options& options) {
  PrintFacts(options);
  const auto wanted = [&](std::string_view row) {
    return options.only.empty() || options.only == row;
  };
  std::uint64_t appended = 0;
  std::uint64_t transactions = 0;
  if (wanted("C1")) appended = MeasureAppends(options);
  if (wanted("C2")) transactions += MeasureCounters(options, "C2", /*fsync=*/true);
  if (wanted("C2i")) transactions += MeasureCounters(options, "C2i", /*fsync=*/false);
  std::printf(
      "\nChecked after closing and opening: %llu messages are all there and in order; every\n"
      "counter of every side is the number of its transactions, %llu in all.\n",
      static_cast<unsigned long long>(appended), static_cast<unsigned long long>(transactions));
}

}  // namespace
}  // namespace topicdb::bench

int main(int count, char** arguments) {
  topicdb::bench::Run(topicdb::bench::ParseOptions(count, arguments));
}
