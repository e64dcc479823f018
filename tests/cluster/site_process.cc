#include "cluster/site_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "topicdb/database.h"
#include "topicdb/verify.h"

extern char** environ;

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// For everything that takes as long as it takes. Machines that test may be slow.
constexpr std::chrono::seconds kPatience(120);
constexpr milliseconds kBetweenQuestions(10);
// After this long without an answer, the client asks another site. A site answers within 5 seconds
// whether a majority has what was appended.
constexpr std::chrono::seconds kAnswerPatience(8);

// Returns what lets AddressSanitizer accept that another library comes first.
std::string SanitizerOptions() {
  const char* const known = std::getenv("ASAN_OPTIONS");
  const std::string before = known == nullptr ? std::string() : std::string(known) + ":";
  return "ASAN_OPTIONS=" + before + "verify_asan_link_order=0";
}

// Reads the values that a database has, and how often.
std::map<std::uint64_t, int> NumbersIn(const std::string& path) {
  OpenOptions options;
  options.read_only = true;
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  std::map<std::uint64_t, int> numbers;
  if (!database.ok()) return numbers;
  const auto scan = (*database)->NewScan(Filter::Parse("#").value(), {}).value();
  while (const auto batch = scan->Next({}).value()) {
    for (std::size_t row = 0; row < batch->size(); ++row) {
      ++numbers[std::stoull(std::string(batch->value(row)))];
    }
  }
  return numbers;
}

}  // namespace

void SiteProcess::Start(std::uint64_t flush_bytes) {
  int input[2];
  int output[2];
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  std::string program = TOPICDB_SITE_PROGRAM;
  std::string directory = directory_;
  std::string replica = std::to_string(replica_);
  std::string election = std::to_string(election_.count());
  std::vector<char*> environment;  // of two variables with one name, the first counts
  for (std::string& variable : environment_) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  std::string flush = std::to_string(flush_bytes);
  std::string shards = std::to_string(shards_);
  char* const arguments[] = {program.data(), directory.data(), replica.data(), election.data(),
                             flush.data(),   shards.data(),    nullptr};
  ASSERT_EQ(
      posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  output_ = output[0];
  read_.clear();
  unanswered_ = 0;
  const auto port = ReadLine(kPatience);
  ASSERT_TRUE(port.has_value());
  port_ = std::stoi(*port);
}

void SiteProcess::PrepareToFail(const std::string& directory, int from, int error_number) {
  environment_ = {
      std::string("LD_PRELOAD=") + TOPICDB_FAILING_DISK,
      SanitizerOptions(),
      "FAIL_ROOT=" + std::filesystem::canonical(directory_).string() + "/" + directory,
      "FAIL_FROM=" + std::to_string(from),
      "FAIL_CALLS=1000000000",
      "FAIL_ERRNO=" + std::to_string(error_number),
      "FAIL_WHEN=" + directory_ + "/fail",
      "FAIL_TOLD=" + directory_ + "/failed",
  };
}

void SiteProcess::ShiftClock(std::chrono::seconds shift) {
  environment_ = {std::string("LD_PRELOAD=") + TOPICDB_SHIFTED_CLOCK, SanitizerOptions(),
                  "SHIFT_SECONDS=" + std::to_string(shift.count())};
}

void SiteProcess::SetPatience(std::chrono::seconds patience) {
  environment_ = {"TOPICDB_SITE_PATIENCE_S=" + std::to_string(patience.count())};
}

void SiteProcess::CountFsyncs() {
  environment_ = {std::string("LD_PRELOAD=") + TOPICDB_COUNTED_FSYNCS, SanitizerOptions(),
                  "COUNT_FILE=" + directory_ + "/fsyncs"};
}

std::uint64_t SiteProcess::fsyncs() const {
  std::uint64_t count = 0;
  std::ifstream(directory_ + "/fsyncs", std::ios::binary)
      .read(reinterpret_cast<char*>(&count), sizeof(count));
  return count;
}

void SiteProcess::FailDisk() { std::ofstream(directory_ + "/fail"); }

void SiteProcess::MendDisk() {
  std::filesystem::remove(directory_ + "/fail");
  std::filesystem::remove(directory_ + "/failed");
}

bool SiteProcess::is_failing() const { return std::filesystem::exists(directory_ + "/fail"); }

bool SiteProcess::has_failed() const { return std::filesystem::exists(directory_ + "/failed"); }

void SiteProcess::Kill() {
  if (!is_running()) return;
  kill(process_, SIGKILL);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  close(input_);
  close(output_);
}

void SiteProcess::Stop() { kill(process_, SIGSTOP); }

void SiteProcess::Continue() { kill(process_, SIGCONT); }

std::optional<std::string> SiteProcess::Ask(const std::string& command, milliseconds patience) {
  if (!is_running()) return std::nullopt;
  const auto deadline = Clock::now() + patience;
  const auto left = [&] {
    return std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()),
                    milliseconds(0));
  };
  Say(command);
  while (unanswered_ > 0) {
    const auto answer = ReadLine(left());
    if (!answer.has_value()) return std::nullopt;
    if (--unanswered_ == 0) return answer;
  }
  return std::nullopt;
}

// A process that has ended does not answer either.
void SiteProcess::Say(const std::string& command) {
  const std::string line = command + "\n";
  if (write(input_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) ++unanswered_;
}

void SiteProcess::Tell(const std::string& command) {
  const auto answer = Ask(command);
  if (is_failing()) return;
  EXPECT_EQ(answer.value_or("no answer"), "ok") << command << " at replica " << replica_;
}

std::optional<ReplicaSaid> SiteProcess::State(std::uint32_t shard) {
  const auto answer = Ask("state " + std::to_string(shard), milliseconds(500));
  if (!answer.has_value()) return std::nullopt;
  std::istringstream words(*answer);
  ReplicaSaid state;
  words >> state.state >> state.leader >> state.term >> state.first >> state.applied >> state.last;
  EXPECT_TRUE(state.state != "failed" || is_failing()) << *answer;
  return state;
}

ReplicaSaid SiteProcess::AwaitState(std::uint32_t shard) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline) {
    const auto state = State(shard);
    if (state.has_value()) return *state;
  }
  ADD_FAILURE() << "replica " << replica_ << " does not answer";
  return {};
}

milliseconds SiteProcess::CpuTime() const {
  std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
  std::string word;
  long user = 0;
  long system = 0;
  for (int i = 0; i < 13; ++i) file >> word;  // the name of the program has no spaces
  file >> user >> system;
  return milliseconds((user + system) * 1'000 / sysconf(_SC_CLK_TCK));
}

std::optional<std::string> SiteProcess::ReadLine(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const std::size_t end = read_.find('\n');
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd waits{output_, POLLIN, 0};
    if (poll(&waits, 1, static_cast<int>(std::max<milliseconds::rep>(left, 0))) <= 0) {
      return std::nullopt;
    }
    char bytes[4096];
    const ssize_t count = read(output_, bytes, sizeof(bytes));
    if (count <= 0) return std::nullopt;
    read_.append(bytes, static_cast<std::size_t>(count));
  }
}

Cluster::Cluster(const std::string& directory, milliseconds election, std::uint32_t shards)
    : election_(election), serials_(shards), asks_next_(shards) {
  signal(SIGPIPE, SIG_IGN);  // a site that was killed
  for (std::uint64_t replica = 1; replica <= 3; ++replica) {
    const std::string site = directory + "/site" + std::to_string(replica);
    std::filesystem::create_directories(site);
    sites_.push_back(std::make_unique<SiteProcess>(site, replica, election_, shards));
  }
}

Cluster::~Cluster() = default;

std::vector<SiteProcess*> Cluster::sites() {
  std::vector<SiteProcess*> all;
  for (const auto& site : sites_) all.push_back(site.get());
  return all;
}

void Cluster::StartAll() {
  std::vector<SiteProcess*> started;
  for (SiteProcess* site : sites()) {
    if (site->is_running()) continue;
    site->Start(flush_bytes_);
    started.push_back(site);
  }
  for (SiteProcess* site : sites()) {
    for (SiteProcess* peer : sites()) {
      if (peer != site) {
        int port = peer->port();
        if (!links_.empty()) {
          link(*site, *peer).SetTarget(port);
          port = link(*site, *peer).port();
        }
        site->Tell("peer " + std::to_string(peer->replica()) +
                   " 127.0.0.1:" + std::to_string(port));
      }
    }
  }
  for (SiteProcess* site : started) {
    if (site == holding_) site->Tell("hold");
    site->Tell("join");
  }
}

void Cluster::UseLinks() {
  for (const SiteProcess* from : sites()) {
    for (const SiteProcess* to : sites()) {
      if (from != to) links_[{from->replica(), to->replica()}] = std::make_unique<Link>();
    }
  }
}

Link& Cluster::link(const SiteProcess& from, const SiteProcess& to) {
  return *links_.at({from.replica(), to.replica()});
}

std::vector<Link*> Cluster::links() {
  std::vector<Link*> all;
  for (const auto& [ends, link] : links_) all.push_back(link.get());
  return all;
}

SiteProcess& Cluster::Leader(std::uint32_t shard) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline) {
    for (SiteProcess* site : sites()) {
      const auto state = site->State(shard);
      if (state.has_value() && state->state == "leading") return *site;
    }
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  ADD_FAILURE() << "no site leads";
  return *sites_.front();
}

bool Cluster::Append(int count, const std::string& verb) {
  const std::string command = verb + " " + std::to_string(next_) + " " + std::to_string(count);
  const auto deadline = Clock::now() + kPatience;
  const std::size_t shard = next_ % serials_.size();
  std::size_t& asks_next = asks_next_[shard];
  for (int refused = 0; Clock::now() < deadline; ++asks_next) {
    SiteProcess& site = *sites_[asks_next % sites_.size()];
    if (!site.is_running()) continue;
    const std::string said =
        site.Ask(command, kAnswerPatience).value_or("unknown: there was no answer");
    if (said.starts_with("refused")) {
      if (++refused % 3 == 0) std::this_thread::sleep_for(kBetweenQuestions);
      continue;
    }
    const bool is_acknowledged = said.starts_with("ok ");
    EXPECT_TRUE(is_acknowledged || said.starts_with("unknown") || site.is_failing()) << said;
    if (is_acknowledged) serials_[shard] = std::stoull(said.substr(3));
    NoteAppended(count, is_acknowledged);
    if (!is_acknowledged) ++asks_next;
    return is_acknowledged;
  }
  ADD_FAILURE() << "no site takes an append";
  return false;
}

void Cluster::AppendOnce(int count, const std::function<void(SiteProcess&)>& disturb) {
  const std::size_t shard = next_ % serials_.size();
  const std::string command = "append " + std::to_string(next_) + " " + std::to_string(count) +
                              " append-" + std::to_string(next_);
  SiteProcess& leader = Leader(static_cast<std::uint32_t>(shard));
  leader.Say(command);
  disturb(leader);
  const auto deadline = Clock::now() + kPatience;
  for (std::size_t asks_next = 0; Clock::now() < deadline; ++asks_next) {
    SiteProcess& site = *sites_[asks_next % sites_.size()];
    const std::string said = site.Ask(command, kAnswerPatience).value_or("no answer");
    if (!said.starts_with("ok ")) {
      if (site.is_running()) std::this_thread::sleep_for(kBetweenQuestions);
      continue;
    }
    serials_[shard] = std::stoull(said.substr(3));
    NoteAppended(count, true);
    return;
  }
  ADD_FAILURE() << "no site takes an append again";
}

void Cluster::NoteAppended(int count, bool is_acknowledged) {
  const std::size_t next_shard = (next_ + 1) % serials_.size();
  auto& into = is_acknowledged ? acknowledged_ : unknown_;
  for (int i = 0; i < count; ++i) into.insert(next_ + i);
  next_ += count;
  while (next_ % serials_.size() != next_shard) ++next_;
}

void Cluster::AppendUntilCut(std::uint64_t index) {
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline) {
    Append(1'000);
    std::this_thread::sleep_for(kBetweenQuestions);  // the leader first waits for who is away
    const auto state = Leader().State();
    // The entry after `index` is gone, too, so whoever has come to `index` cannot go on.
    if (state.has_value() && state->first > index + 1) return;
  }
  ADD_FAILURE() << "the log of the leader is not cut behind entry " << index;
}

void Cluster::AwaitEqual() {
  const auto deadline = Clock::now() + kPatience;
  std::uint32_t shard = 0;
  while (Clock::now() < deadline) {
    std::set<std::uint64_t> applied;
    bool all = true;
    for (SiteProcess* site : sites()) {
      const auto state = site->State(shard);
      all = all && state.has_value() && state->applied == state->last;
      if (state.has_value()) applied.insert(state->applied);
    }
    if (all && applied.size() == 1) {
      if (++shard == serials_.size()) return;
      continue;
    }
    std::this_thread::sleep_for(kBetweenQuestions);
  }
  ADD_FAILURE() << "the sites have not applied the same";
}

void Cluster::Check(const std::map<std::uint64_t, int>& numbers,
                    const std::set<std::uint64_t>& least, const SiteProcess& site) const {
  std::uint64_t lost = 0;
  for (const std::uint64_t number : least) lost += numbers.contains(number) ? 0 : 1;
  EXPECT_EQ(lost, 0U) << "acknowledged messages of replica " << site.replica();
  for (const auto& [number, times] : numbers) {
    EXPECT_EQ(times, 1) << number;
    EXPECT_TRUE(acknowledged_.contains(number) || unknown_.contains(number)) << number;
  }
}

void Cluster::ReadEverywhere() {
  for (SiteProcess* site : sites()) {
    if (!site->is_running()) continue;
    CheckSaid(site->Ask("read" + Serials(), kPatience).value_or("no answer"), acknowledged_, *site);
  }
}

void Cluster::CheckSaid(const std::string& said, const std::set<std::uint64_t>& least,
                        const SiteProcess& site) const {
  ASSERT_TRUE(said.starts_with("ok")) << said;
  std::istringstream words(said.substr(2));
  std::map<std::uint64_t, int> numbers;
  for (std::uint64_t number = 0; words >> number;) ++numbers[number];
  Check(numbers, least, site);
}

std::string Cluster::Serials() const {
  std::string serials;
  for (const std::uint64_t serial : serials_) serials.append(" ").append(std::to_string(serial));
  return serials;
}

void Cluster::CloseAndCheck() {
  AwaitEqual();
  for (SiteProcess* site : sites()) {
    site->Tell("close");
    site->Kill();
  }
  std::map<std::uint64_t, int> first;
  for (SiteProcess* site : sites()) {
    const std::string path = site->directory() + "/db";
    const auto numbers = NumbersIn(path);
    if (site == sites().front()) first = numbers;
    EXPECT_EQ(numbers, first) << "replica " << site->replica();
    Check(numbers, acknowledged_, *site);
    const auto verified = VerifyDatabase(path, VerifyOptions());
    EXPECT_TRUE(verified.ok()) << verified.status().message();
    if (!verified.ok()) continue;
    for (const Problem& problem : verified->problems) ADD_FAILURE() << problem.what;
  }
}

}  // namespace topicdb::replication
