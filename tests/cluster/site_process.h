// A site in a process of its own, and three of them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/link.h"

namespace topicdb::replication {

// What a site says of its replica of a shard.
struct ReplicaSaid {
  std::string state;
  std::uint64_t leader = 0;
  std::uint64_t term = 0;
  std::uint64_t first = 0;
  std::uint64_t applied = 0;
  std::uint64_t last = 0;
};

// Runs site_program, and talks to it. The destructor kills it. Not thread-safe.
class SiteProcess {
 public:
  SiteProcess(std::string directory, std::uint64_t replica, std::chrono::milliseconds election,
              std::uint32_t shards)
      : directory_(std::move(directory)), replica_(replica), election_(election), shards_(shards) {}
  ~SiteProcess() { Kill(); }
  SiteProcess(const SiteProcess&) = delete;
  SiteProcess& operator=(const SiteProcess&) = delete;

  // Has the site cut its logs after this many bytes, or as usual for 0.
  void Start(std::uint64_t flush_bytes);
  // Has writes and fsyncs below a directory fail from when FailDisk is called and there were `from`
  // calls, if the site is started afterwards. See tests/crash/failing_disk.c.
  void PrepareToFail(const std::string& directory, int from, int error_number);
  void FailDisk();
  void MendDisk();
  // Has the clock of the site be wrong by this much, if the site is started afterwards.
  void ShiftClock(std::chrono::seconds shift);
  // Has writes wait this long for a majority, if the site is started afterwards.
  void SetPatience(std::chrono::seconds patience);
  bool is_failing() const;
  // Returns whether a call has failed since FailDisk.
  bool has_failed() const;
  void Kill();  // by SIGKILL; nothing if it is not running
  void Stop();  // by SIGSTOP
  void Continue();
  bool is_running() const { return process_ > 0; }
  const std::string& directory() const { return directory_; }
  std::uint64_t replica() const { return replica_; }
  int port() const { return port_; }

  // Sends a command, and returns the answer. Returns nothing if the process ends first, or does not
  // answer in time; then later answers are lost, too, until it is started again.
  std::optional<std::string> Ask(const std::string& command,
                                 std::chrono::milliseconds patience = std::chrono::seconds(60));
  // Sends a command to a process that is killed before it answers, or soon afterwards.
  void Say(const std::string& command);
  // Asks, and expects "ok".
  void Tell(const std::string& command);
  // Returns nothing if there is no answer soon, as from a process that is stopped.
  std::optional<ReplicaSaid> State(std::uint32_t shard = 0);
  ReplicaSaid AwaitState(std::uint32_t shard = 0);
  // Has the site count its fsyncs, if it is started afterwards. Returns how many there were.
  void CountFsyncs();
  std::uint64_t fsyncs() const;
  // Returns how long the process has computed.
  std::chrono::milliseconds CpuTime() const;
  pid_t process() const { return process_; }

 private:
  std::optional<std::string> ReadLine(std::chrono::milliseconds patience);

  const std::string directory_;
  const std::uint64_t replica_;
  const std::chrono::milliseconds election_;
  const std::uint32_t shards_;
  std::vector<std::string> environment_;  // what the process gets beside that of this one
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
  int port_ = 0;
  int unanswered_ = 0;  // commands whose answers did not come in time
  std::string read_;
};

// Three sites with a replica each of every shard of a database, and a client that appends numbers
// to it, to one shard after the other. It knows which numbers were acknowledged, which surely were
// not stored, and which may be. Not thread-safe.
class Cluster {
 public:
  // `directory` must be empty.
  Cluster(const std::string& directory, std::chrono::milliseconds election,
          std::uint32_t shards = 1);
  ~Cluster();

  std::vector<SiteProcess*> sites();
  SiteProcess& site(std::size_t index) { return *sites_[index]; }
  // Has sites that are started later cut their logs after this many bytes.
  void set_flush_bytes(std::uint64_t bytes) { flush_bytes_ = bytes; }
  // Has this site read with a scan and a tail from when it is started.
  void set_holding(const SiteProcess& site) { holding_ = &site; }
  // Has sites that are started later talk by links, which the test may cut.
  void UseLinks();
  // Returns the link by which one site sends to another. REQUIRES: UseLinks was called
  Link& link(const SiteProcess& from, const SiteProcess& to);
  std::vector<Link*> links();
  // Starts those that are not running, and has all know where the others are.
  void StartAll();
  // Returns the site that leads a shard, once one does; those that do not run or answer are passed
  // over.
  SiteProcess& Leader(std::uint32_t shard = 0);
  // Sends the next numbers to the leader of the next shard, and does not wait for what it says.
  // Then has `disturb` done, and sends the same append again until it is acknowledged.
  void AppendOnce(int count, const std::function<void(SiteProcess&)>& disturb);
  // Appends the next numbers at the leader of the next shard, until that is acknowledged or may
  // have been done. Returns whether it is acknowledged.
  // `verb` is the command of the site.
  bool Append(int count, const std::string& verb = "append");
  // Appends until the log of the leader of the first shard has lost the entry after this one.
  void AppendUntilCut(std::uint64_t index);
  // Waits until all sites have applied the same entries, which are all that there are.
  void AwaitEqual();
  // Reads from every site that runs, and checks that it has all that was acknowledged, at most what
  // may be stored beside it, and nothing twice.
  void ReadEverywhere();
  // Checks what a site has said: "ok" and the numbers that it has. It must have all of `least`, at
  // most what may be stored, and nothing twice.
  void CheckSaid(const std::string& said, const std::set<std::uint64_t>& least,
                 const SiteProcess& site) const;
  // Returns the last commit that was acknowledged, of each shard.
  std::string Serials() const;
  // Closes all sites and checks that each has what it should: all that was acknowledged, at most
  // what may be stored beside it, nothing twice, the same everywhere, and no damage.
  void CloseAndCheck();

  const std::set<std::uint64_t>& acknowledged() const { return acknowledged_; }
  std::uint64_t unknown() const { return unknown_.size(); }

 private:
  // Notes that the next numbers were acknowledged, or may be stored, and goes on to the next shard.
  void NoteAppended(int count, bool is_acknowledged);
  // Checks what a replica has: numbers, and how often.
  void Check(const std::map<std::uint64_t, int>& numbers, const std::set<std::uint64_t>& least,
             const SiteProcess& site) const;

  const std::chrono::milliseconds election_;
  std::vector<std::unique_ptr<SiteProcess>> sites_;
  std::uint64_t flush_bytes_ = 0;  // 0: the usual
  const SiteProcess* holding_ = nullptr;
  // By the replicas of the sites that send and receive; empty without links.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::unique_ptr<Link>> links_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> serials_;  // of the last commits that were acknowledged, by shard
  std::vector<std::size_t> asks_next_;  // the site that the client asks next, by shard
  std::set<std::uint64_t> acknowledged_;
  std::set<std::uint64_t> unknown_;
};

}  // namespace topicdb::replication
