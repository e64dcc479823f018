// A site with a database of which other sites have replicas, for tests. It reads commands, one a
// line, from its input, and answers each with one line. SERIALS are a commit for each shard.
//
//   peer SITE ADDRESS         says where another site is: "ok"
//   join                      opens the database: "ok"
//   append FIRST COUNT [ID]   commits messages whose values are numbers to the shard FIRST modulo
//                             the number of shards: "ok" and the serial, "refused" if nothing was
//                             done, "unknown", or "failed", with the reason behind it. An append
//                             with an ID is stored once, however often it comes
//   stamp FIRST COUNT         as append, with timestamps that the leader assigns
//   times SERIALS             the timestamps of all messages up to these commits, in the order of
//                             commits: "ok" and the timestamps
//   await SERIALS             waits until readers see these commits here, whoever leads: "ok"
//   read SERIALS              as await, followed by the values of all messages
//   hold                      says, before it joins, that it reads from the start: with a scan and
//                             a tail: "ok"
//   drain SERIALS             reads with that tail up to these commits: "ok" and the values
//   release                   reads the rest of that scan: "ok" and the values
//   many CALLERS SECONDS      has threads append one message each, over and over: "ok", and the
//                             times of all appends in microseconds, sorted: number, median, 99 %,
//                             longest
//   prepare BATCHES ROWS TURN makes batches of metrics, other and later ones in each turn: "ok"
//   load                      appends these batches, and seals the shards that it leads: "ok"
//   seal                      seals all blocks of the shards that it leads: as append, without a
//                             serial
//   rotate                    begins new generations in these shards: as seal
//   settle                    moves everything to files: "ok"
//   scan                      reads all messages: "ok", their number, a hash of them, microseconds
//   local PATH                opens a local database, for comparison: "ok"
//   scan-local                as scan, of the local database
//   maintain                  does what the retention classes ask for: as seal
//   retain FILTER HOURS       has a class keep these topics for so many hours: as seal
//   step-down                 hands over whatever it leads: as seal
//   state SHARD               state, replica that leads, term, first, applied and last entry
//   close                     closes the database: "ok"
//
// site_program DIRECTORY SITE ELECTION_MS FLUSH_BYTES SHARDS: first prints the port of the site.
// The sites are 1, 2 and 3. After FLUSH_BYTES of entries, or the usual for 0, a log may be cut.
// TOPICDB_SITE_PATIENCE_S says for how many seconds a write waits for a majority, 5 without it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "commit/shard_choice.h"
#include "metrics_load.h"
#include "read_all.h"
#include "replication/cluster/site_identity.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_state.h"
#include "topicdb/database.h"
#include "topicdb/database/site.h"
#include "topicdb/tail.h"

namespace topicdb::replication {
namespace {

constexpr int kTopics = 17;
constexpr std::chrono::seconds kReadPatience(60);
constexpr std::chrono::seconds kJoinPatience(60);

class SiteProgram {
 public:
  SiteProgram(const std::string& directory, const std::string& name,
              std::chrono::milliseconds election, std::uint64_t flush_bytes, std::uint32_t shards)
      : shard_count_(shards) {
    SiteOptions options;
    options.path = directory + "/db";
    options.name = name;
    options.sites = {{"1", ""}, {"2", ""}, {"3", ""}};
    options.listen = "127.0.0.1:0";
    options.election_timeout = election;
    if (flush_bytes != 0) options.flush_bytes = flush_bytes;
    const char* const patience = std::getenv("TOPICDB_SITE_PATIENCE_S");
    options.commit_patience = std::chrono::seconds(patience == nullptr ? 5 : std::stoi(patience));
    auto started = Site::Start(options);
    if (!started.ok()) {
      std::cerr << started.status().message() << "\n";
      std::exit(1);
    }
    site_ = std::move(*started);
  }
  ~SiteProgram() { Close(); }

  std::uint16_t port() const { return site_->port(); }

  std::string Answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "peer") return Peer(&words);
    if (command == "join") return Join();
    if (command == "append") return Append(&words, /*is_stamped=*/false);
    if (command == "stamp") return Append(&words, /*is_stamped=*/true);
    if (command == "times") return Times(&words);
    if (command == "await") return WordFor(Await(SerialsOf(&words)));
    if (command == "read") return Read(&words);
    if (command == "hold") return Hold();
    if (command == "drain") return Drain(&words);
    if (command == "release") return Release();
    if (command == "many") return Many(&words);
    if (command == "prepare") return Prepare(&words);
    if (command == "load") return Load();
    if (command == "seal") return Seal();
    if (command == "rotate") return Rotate();
    if (command == "step-down") return StepDown();
    if (command == "settle") return WordFor(database_->Flush());
    if (command == "scan") return TimeScan(*database_);
    if (command == "local") return OpenLocal(&words);
    if (command == "scan-local") return TimeScan(*local_);
    if (command == "maintain") return Maintain();
    if (command == "retain") return Retain(&words);
    if (command == "state") return State(&words);
    if (command == "close") return Close();
    return "failed: no such command";
  }

 private:
  using Serials = std::map<std::uint32_t, Serial>;

  static std::string WordFor(const Status& status) {
    if (status.ok()) return "ok";
    const char* const word = status.code() == Code::kNotLeader        ? "refused: "
                             : status.code() == Code::kUnknownOutcome ? "unknown: "
                                                                      : "failed: ";
    return word + status.message();
  }
  static Serials SerialsOf(std::istringstream* words) {
    Serials serials;
    std::uint64_t serial = 0;
    for (std::uint32_t shard = 0; *words >> serial; ++shard) serials[shard] = Serial{serial};
    return serials;
  }
  static void AddValues(const Batch& batch, std::string* answer) {
    for (std::size_t row = 0; row < batch.size(); ++row)
      answer->append(" ").append(batch.value(row));
  }

  std::string Peer(std::istringstream* words) {
    std::string name;
    std::string address;
    *words >> name >> address;
    return WordFor(site_->SetAddress(name, address));
  }
  std::string StepDown() { return WordFor(site_->StepDown(site_->identity().name)); }
  std::string Join() {
    OpenOptions options;
    options.schema.shards = shard_count_;
    options.maintenance_interval = std::chrono::seconds(1);
    auto opened = site_->OpenDatabase(options, kJoinPatience);
    if (!opened.ok()) return WordFor(opened.status());
    database_ = std::move(*opened);
    if (!holds_) return "ok";
    auto scan = database_->NewScan(all_, ScanOptions());
    if (!scan.ok()) return WordFor(scan.status());
    scan_ = std::move(*scan);
    auto tail = database_->NewTail({all_}, TailOptions());
    if (!tail.ok()) return WordFor(tail.status());
    tail_ = std::move(*tail);
    return "ok";
  }
  // Returns topics whose messages are in this shard.
  const std::vector<std::string>& TopicsOf(std::uint32_t shard) {
    std::vector<std::string>& topics = topics_[shard];
    const ShardChoice choice(database_->schema(), MessageKeys());
    for (int i = 0; topics.size() < kTopics; ++i) {
      std::string topic = "load/" + std::to_string(i);
      if (choice.ShardOf(0, topic) == shard) topics.push_back(std::move(topic));
    }
    return topics;
  }
  Result<Serial> AppendValues(std::uint64_t first, int count, const std::string& id = {},
                              bool is_stamped = false) {
    const auto shard = static_cast<std::uint32_t>(first % database_->schema().shards);
    const std::vector<std::string>* topics = nullptr;
    {
      const std::lock_guard lock(topics_mutex_);
      topics = &TopicsOf(shard);
    }
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) values.push_back(std::to_string(first + i));
    std::vector<MessageView> messages;
    for (int i = 0; i < count; ++i) {
      const auto time = is_stamped ? kAssignTimestamp : static_cast<std::int64_t>(first + i);
      messages.push_back({(*topics)[(first + i) % kTopics], time, values[i]});
    }
    TOPICDB_ASSIGN_OR_RETURN(const Receipt receipt, database_->Append(messages, std::nullopt, id));
    return receipt.serials.front().second;
  }
  std::string Append(std::istringstream* words, bool is_stamped) {
    std::uint64_t first = 0;
    int count = 0;
    std::string id;
    *words >> first >> count >> id;
    const auto serial = AppendValues(first, count, id, is_stamped);
    return serial.ok() ? "ok " + std::to_string(serial->value()) : WordFor(serial.status());
  }
  std::string Times(std::istringstream* words) {
    const auto tail = database_->NewTail({all_}, TailOptions());
    if (!tail.ok()) return WordFor(tail.status());
    return DrainWith(tail->get(), SerialsOf(words), [](const Batch& batch, std::string* answer) {
      for (std::size_t row = 0; row < batch.size(); ++row) {
        answer->append(" ").append(std::to_string(batch.timestamp(row)));
      }
    });
  }
  Status Await(const Serials& serials) const {
    return database_->AwaitCommits(serials, kReadPatience);
  }
  std::string Hold() {
    holds_ = true;
    return "ok";
  }
  std::string ReadAll(Scan* scan) const {
    std::string answer = "ok";
    for (;;) {
      const auto batch = scan->Next(PageLimits());
      if (!batch.ok()) return WordFor(batch.status());
      if (*batch == nullptr) return answer;
      AddValues(**batch, &answer);
    }
  }
  std::string Release() {
    const std::string answer = ReadAll(scan_.get());
    scan_.reset();
    return answer;
  }
  std::string Drain(std::istringstream* words) {
    const std::string answer = DrainWith(tail_.get(), SerialsOf(words), AddValues);
    tail_.reset();
    return answer;
  }
  // Reads with a tail up to these commits, and adds each batch to the answer.
  template <typename Add>
  static std::string DrainWith(Tail* tail, const Serials& until, Add add) {
    std::string answer = "ok";
    const auto is_behind = [&] {
      const Serials serials = tail->serials();
      return std::any_of(until.begin(), until.end(),
                         [&](const auto& one) { return serials.at(one.first) < one.second; });
    };
    while (is_behind()) {
      const auto batch = tail->Next(PageLimits(), kReadPatience);
      if (!batch.ok()) return WordFor(batch.status());
      if (*batch == nullptr) return "failed: the tail gives nothing more";
      add(**batch, &answer);
    }
    return answer;
  }
  std::string Read(std::istringstream* words) {
    if (const Status here = Await(SerialsOf(words)); !here.ok()) return WordFor(here);
    const auto scan = database_->NewScan(all_, ScanOptions());
    return scan.ok() ? ReadAll(scan->get()) : WordFor(scan.status());
  }
  std::string Many(std::istringstream* words) {
    int callers = 0;
    int seconds = 0;
    *words >> callers >> seconds;
    std::mutex mutex;
    std::vector<std::int64_t> times;
    Status failed;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    std::vector<std::thread> threads;
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&, caller] {
        for (std::uint64_t i = 0;; ++i) {
          const auto began = std::chrono::steady_clock::now();
          if (began >= end) return;
          const Status status = AppendValues(1'000'000'000ULL * (caller + 1) + i, 1).status();
          const std::chrono::duration<double, std::micro> took =
              std::chrono::steady_clock::now() - began;
          const std::lock_guard lock(mutex);
          if (!status.ok()) {
            failed = status;
            return;
          }
          times.push_back(static_cast<std::int64_t>(took.count()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!failed.ok()) return WordFor(failed);
    std::sort(times.begin(), times.end());
    const std::size_t n = times.size();
    return "ok " + std::to_string(n) + " " + std::to_string(times[n / 2]) + " " +
           std::to_string(times[n * 99 / 100]) + " " + std::to_string(times[n - 1]);
  }
  std::string Prepare(std::istringstream* words) {
    int batches = 0;
    int rows = 0;
    std::uint64_t turn = 0;
    *words >> batches >> rows >> turn;
    load_.emplace(batches, rows, turn);
    return "ok";
  }
  std::string Load() {
    for (const auto& batch : load_->batches()) {
      if (const auto receipt = database_->Append(batch); !receipt.ok()) {
        return WordFor(receipt.status());
      }
    }
    return Seal();
  }
  std::string OpenLocal(std::istringstream* words) {
    std::string path;
    *words >> path;
    auto opened = Database::Open(path, {});
    if (!opened.ok()) return WordFor(opened.status());
    local_ = std::move(*opened);
    return "ok";
  }
  // Does something with each shard that this site leads.
  template <typename Work>
  std::string WithLed(Work work) {
    Status last = NotLeader("this site leads no shard");
    for (std::uint32_t shard = 0; shard < database_->schema().shards; ++shard) {
      const auto led = site_->shards()->Find(shard)->Lead(std::chrono::milliseconds(0));
      if (!led.ok()) continue;
      last = work(**led);
      if (!last.ok()) break;
    }
    return WordFor(last);
  }
  std::string Seal() {
    return WithLed([](Shard& shard) { return shard.SealAll(); });
  }
  std::string Rotate() {
    return WithLed([](Shard& shard) { return shard.Rotate(std::nullopt, std::nullopt); });
  }
  std::string Maintain() {
    return WordFor(database_->upkeep().Maintain(std::nullopt, nullptr).status());
  }
  std::string Retain(std::istringstream* words) {
    RetentionClass limits;
    int hours = 0;
    *words >> limits.filter >> hours;
    limits.age = std::chrono::hours(hours);
    return WordFor(database_->upkeep().SetRetention({limits}, /*dry_run=*/false).status());
  }
  std::string State(std::istringstream* words) {
    std::uint32_t shard = 0;
    *words >> shard;
    const auto replica = site_->shards()->Find(shard);
    const auto status = site_->shards()->StatusOf(shard);
    if (!status.ok()) return WordFor(status.status());
    static constexpr const char* kNames[] = {"following", "taking-over", "leading",
                                             "giving-up", "failed",      "healing"};
    std::ostringstream answer;
    answer << kNames[static_cast<int>(replica->state())] << " " << status->position.leader << " "
           << status->position.term << " " << status->first << " " << status->applied << " "
           << status->last;
    if (!replica->failure().ok()) answer << " " << replica->failure().message();
    return answer.str();
  }
  std::string Close() {
    scan_.reset();
    tail_.reset();
    if (database_ == nullptr) return "ok";
    const Status closed = database_->Close();
    database_.reset();
    return WordFor(closed);
  }

  const std::uint32_t shard_count_;
  const Filter all_ = Filter::Parse("#").value();
  std::unique_ptr<Site> site_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Database> local_;
  std::mutex topics_mutex_;
  std::map<std::uint32_t, std::vector<std::string>> topics_;
  std::optional<MetricsLoad> load_;
  bool holds_ = false;
  std::unique_ptr<Scan> scan_;
  std::unique_ptr<Tail> tail_;
};

}  // namespace
}  // namespace topicdb::replication

int main(int, char** arguments) {
  topicdb::replication::SiteProgram site(
      arguments[1], arguments[2], std::chrono::milliseconds(std::stoi(arguments[3])),
      std::stoull(arguments[4]), static_cast<std::uint32_t>(std::stoul(arguments[5])));
  std::cout << site.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << site.Answer(line) << std::endl;
  return 0;
}
