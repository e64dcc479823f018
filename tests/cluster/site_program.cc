// A site with one replica of one shard, for tests. It reads commands, one a line, from its input,
// and answers each with one line:
//
//   peer REPLICA ADDRESS      says where another replica is: "ok"
//   join VOTER...             opens the replica: "ok"
//   flush BYTES               says, before it joins, after how many bytes the log may be cut: "ok"
//   append FIRST COUNT        commits messages whose values are numbers: "ok" and the serial,
//                             "refused" if nothing was done, "unknown", or "failed", with the
//                             reason behind it
//   await SERIAL              waits until readers see this commit here, whoever leads: "ok"
//   read SERIAL               as await, followed by the values of all messages
//   hold                      says, before it joins, that it uses the shard from the start: "ok"
//   release                   ends to use the shard: "ok"
//   many CALLERS SECONDS      has threads append one message each, over and over: "ok", and the
//   times of all
//                             appends in microseconds, sorted: number, median, 99 %, longest
//   prepare BATCHES ROWS      makes batches of metrics: "ok"
//   load                      appends these batches and seals them: "ok", and microseconds
//   seal                      seals all blocks: as append, without a serial
//   rotate                    begins new generations: as seal
//   state                     state, replica that leads, term, first, applied and last entry
//   close                     closes the replica: "ok"
//
// site_program DIRECTORY REPLICA ELECTION_MS: first prints the port of the site.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "metrics_load.h"
#include "replication/site/replica.h"
#include "store/catalog/found_database.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {
namespace {

constexpr std::uint64_t kGroup = 1;
constexpr int kTopics = 17;

class SiteProgram {
 public:
  SiteProgram(const std::string& directory, std::uint64_t replica,
              std::chrono::milliseconds election)
      : database_(directory + "/db") {
    RaftSiteOptions options;
    options.directory = directory + "/log";
    options.id[0] = static_cast<std::uint8_t>(replica);
    options.replica = replica;
    options.election_timeout = election;
    auto opened = RaftSite::Open(options);
    if (!opened.ok()) {
      std::cerr << opened.status().message() << "\n";
      std::exit(1);
    }
    site_ = std::move(*opened);
  }
  ~SiteProgram() { replica_.reset(); }

  std::uint16_t port() const { return site_->port(); }

  std::string Answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "peer") return Peer(&words);
    if (command == "join") return Join(&words);
    if (command == "flush") return FlushAfter(&words);
    if (command == "append") return Append(&words);
    if (command == "await") return Await(&words);
    if (command == "read") return Read(&words);
    if (command == "hold") return Hold();
    if (command == "release") return Release();
    if (command == "many") return Many(&words);
    if (command == "prepare") return Prepare(&words);
    if (command == "load") return Load();
    if (command == "seal") return Seal();
    if (command == "rotate") return Rotate();
    if (command == "state") return State();
    if (command == "close") return Close();
    return "failed: no such command";
  }

 private:
  static std::string WordFor(const Status& status) {
    if (status.ok()) return "ok";
    const char* const word = status.code() == Code::kNotLeader        ? "refused: "
                             : status.code() == Code::kUnknownOutcome ? "unknown: "
                                                                      : "failed: ";
    return word + status.message();
  }
  std::string Peer(std::istringstream* words) {
    std::uint64_t replica = 0;
    std::string address;
    *words >> replica >> address;
    return WordFor(site_->SetPeer(replica, address));
  }
  std::string FlushAfter(std::istringstream* words) {
    *words >> flush_bytes_;
    return "ok";
  }
  std::string Join(std::istringstream* words) {
    ReplicaOptions options;
    options.group = kGroup;
    options.flush_bytes = flush_bytes_;
    options.commit_patience = std::chrono::seconds(5);
    for (std::uint64_t voter = 0; *words >> voter;) options.voters.push_back(voter);
    const auto found = FindDatabase(database_);
    if (!found.ok()) return WordFor(found.status());
    auto opened = Replica::Open(site_.get(), MakeShardEnvironment(database_, *found, OpenOptions()),
                                0, options);
    if (!opened.ok()) return WordFor(opened.status());
    replica_ = std::move(*opened);
    if (!holds_) return "ok";
    auto lease = replica_->Read(kNoSerial, std::chrono::seconds(60));
    if (!lease.ok()) return WordFor(lease.status());
    held_ = std::move(*lease);
    return "ok";
  }
  Result<Serial> AppendValues(std::uint64_t first, int count) {
    auto led = replica_->Lead(std::chrono::milliseconds(0));
    if (!led.ok()) return led.status();
    std::vector<std::string> topics;
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) {
      topics.push_back("load/" + std::to_string((first + i) % kTopics));
      values.push_back(std::to_string(first + i));
    }
    std::vector<MessageView> messages;
    for (int i = 0; i < count; ++i) {
      messages.push_back({topics[i], static_cast<std::int64_t>(first + i), values[i]});
    }
    ShardCommit commit;
    commit.messages = messages;
    (**led)->Commit(&commit);
    if (!commit.status.ok()) return commit.status;
    return commit.serial;
  }
  std::string Append(std::istringstream* words) {
    std::uint64_t first = 0;
    int count = 0;
    *words >> first >> count;
    const auto serial = AppendValues(first, count);
    return serial.ok() ? "ok " + std::to_string(serial->value()) : WordFor(serial.status());
  }
  Result<std::unique_ptr<ShardLease>> ReadAt(std::istringstream* words) {
    std::uint64_t serial = 0;
    *words >> serial;
    return replica_->Read(Serial{serial}, std::chrono::seconds(60));
  }
  std::string Await(std::istringstream* words) { return WordFor(ReadAt(words).status()); }
  std::string Hold() {
    holds_ = true;
    return "ok";
  }
  std::string Release() {
    held_.reset();
    return "ok";
  }
  std::string Read(std::istringstream* words) {
    const auto lease = ReadAt(words);
    if (!lease.ok()) return WordFor(lease.status());
    std::string answer = "ok";
    const auto view = (**lease)->view();
    for (const SlabView& slab_view : view->slabs()) {
      const Slab& slab = *slab_view.slab;
      SlabSalvage call;
      call.structure_of = [&](StreamId stream) { return slab.StructureOf(stream); };
      call.report = [&](const Finding& finding) { answer = "failed: " + finding.what; };
      call.take = [&](const SalvagedRow& row) {
        answer.append(" ").append(row.value);
        return Status::Ok();
      };
      const Status read = slab.layout().Salvage(view->Source(slab), call);
      if (!read.ok()) return WordFor(read);
    }
    return answer;
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
    *words >> batches >> rows;
    load_.emplace(batches, rows);
    return "ok";
  }
  std::string Load() {
    auto led = replica_->Lead(std::chrono::milliseconds(0));
    if (!led.ok()) return WordFor(led.status());
    const auto began = std::chrono::steady_clock::now();
    for (const auto& batch : load_->batches()) {
      ShardCommit commit;
      commit.messages = batch;
      (**led)->Commit(&commit);
      if (!commit.status.ok()) return WordFor(commit.status);
    }
    const Status sealed = (**led)->SealAll();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    return WordFor(sealed) + " " + std::to_string(static_cast<std::int64_t>(took.count()));
  }
  std::string Seal() {
    auto led = replica_->Lead(std::chrono::milliseconds(0));
    return WordFor(led.ok() ? (**led)->SealAll() : led.status());
  }
  std::string Rotate() {
    auto led = replica_->Lead(std::chrono::milliseconds(0));
    return WordFor(led.ok() ? (**led)->Rotate(std::nullopt, std::nullopt) : led.status());
  }
  std::string State() {
    const auto status = site_->StatusOf(kGroup);
    if (!status.ok()) return WordFor(status.status());
    static constexpr const char* kNames[] = {"following", "taking-over", "leading", "giving-up",
                                             "failed"};
    std::ostringstream answer;
    answer << kNames[static_cast<int>(replica_->state())] << " " << status->position.leader << " "
           << status->position.term << " " << status->first << " " << status->applied << " "
           << status->last;
    if (!replica_->failure().ok()) answer << " " << replica_->failure().message();
    return answer.str();
  }
  std::string Close() {
    const Status closed = replica_->Close();
    replica_.reset();
    return WordFor(closed);
  }

  const std::string database_;
  std::uint64_t flush_bytes_ = ReplicaOptions().flush_bytes;
  std::unique_ptr<RaftSite> site_;
  std::unique_ptr<Replica> replica_;
  std::optional<MetricsLoad> load_;
  bool holds_ = false;
  std::unique_ptr<ShardLease> held_;
};

}  // namespace
}  // namespace topicdb::replication

int main(int, char** arguments) {
  topicdb::replication::SiteProgram site(arguments[1], std::stoull(arguments[2]),
                                         std::chrono::milliseconds(std::stoi(arguments[3])));
  std::cout << site.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << site.Answer(line) << std::endl;
  return 0;
}
