// The consensus of a site, for C++.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/raft/kept_bytes.h"
#include "replication/replicated_log.h"
#include "topicdb/status.h"

struct topicdb_raft_entry;
struct topicdb_raft_site;

namespace topicdb::replication {

// In the place of a group, for what concerns a site and no group.
inline constexpr std::uint64_t kSiteGroup = 0;

enum class RaftRole : std::uint8_t { kFollower, kCandidate, kLeader };

// What a replica is in its group.
struct RaftPosition {
  RaftRole role = RaftRole::kFollower;
  std::uint64_t term = 0;
  std::uint64_t leader = 0;  // the replica that leads, or 0 while none is known
  bool operator==(const RaftPosition&) const = default;
};

// An entry that a majority has. It is there during the call only.
struct CommittedEntry {
  LogPlace place;
  std::string_view bytes;                     // empty if a leader began, or members changed
  const topicdb_raft_entry* entry = nullptr;  // null: nobody else owns the bytes

  // Has the bytes outlast the call, as a copy only if nobody else owns them.
  KeptBytes Keep() const;
};

// Answers what other sites ask. Threads of connections call Answer, also several at once.
class RaftAnswerer {
 public:
  RaftAnswerer() = default;
  virtual ~RaftAnswerer() = default;
  RaftAnswerer(const RaftAnswerer&) = delete;
  RaftAnswerer& operator=(const RaftAnswerer&) = delete;

  // Returns the answer to a request. May take long. After an error, whoever has asked hears that
  // there is no answer.
  virtual Result<std::string> Answer(std::string_view request) = 0;
};

// Takes what the consensus says of one group. The thread of the site makes the calls, one at a
// time, and does nothing else meanwhile: they must hand over, and return. They may call the methods
// of RaftSite whose names begin with Note, and no others. Other replicas of the group ask by
// Answer, beside other calls.
class RaftClient : public RaftAnswerer {
 public:
  // Takes entries that are committed: each once, in order.
  virtual void TakeCommitted(const std::vector<CommittedEntry>& entries) = 0;
  virtual void TakePosition(const RaftPosition& position) = 0;
  // Begins to make a snapshot. RaftSite::NoteSnapshotTaken hands it over.
  virtual void MakeSnapshot() = 0;
  // Returns whether the data of a snapshot is here, and can be installed at once. Otherwise begins
  // to fetch it. RaftSite::NoteSnapshotFetched says how that ended.
  virtual bool FetchSnapshot(std::string_view manifest) = 0;
  // Puts what was fetched in the place of the shard, durably. A failure ends the site.
  virtual Status InstallSnapshot() = 0;
  // The site takes part no more. No other call comes after this one.
  virtual void TakeStop(const Status& why) = 0;
};

struct RaftSiteOptions {
  std::string directory;              // of the log; made if it is not there
  std::array<std::uint8_t, 16> id{};  // of the site: random, for ever
  std::uint64_t incarnation = 1;      // how often the site began with an empty log
  std::uint64_t replica = 0;          // the id in all groups, never used before; not 0
  std::string listen = "127.0.0.1:0";
  // A follower that hears nothing for this long stands for election; drawn anew up to twice as
  // much. At least two ticks of 50 ms.
  std::chrono::milliseconds election_timeout{500};
  // Files in PEM. All three are empty or none; needed for addresses other than loopback.
  std::string authority;
  std::string certificate;
  std::string key;
};

// A member of a group. What a leader alone knows is 0 and false elsewhere.
struct RaftMember {
  std::uint64_t replica = 0;
  std::uint64_t matched = 0;   // the last entry that it has; a leader knows
  bool is_voter = false;       // else it learns
  bool is_leaving = false;     // the change that takes it out is under way
  bool is_active = false;      // it answered lately; a leader knows
  bool gets_snapshot = false;  // a leader knows
  bool operator==(const RaftMember&) const = default;
};

// What RaftSite::StatusOf says of a group.
struct RaftStatus {
  RaftPosition position;
  std::uint64_t committed = 0;
  std::uint64_t applied = 0;
  std::uint64_t first = 0;  // the entries in the log
  std::uint64_t last = 0;
  std::vector<RaftMember> members;  // by replica
};

// The log of a site, which takes part in many groups, and the threads and connections that it
// needs. A thin layer over the C functions of raft/include/topicdb_raft.h. The program that runs a
// site owns it, and it outlives the replicas that use it. Thread-safe.
//
// Lock rule: mutex_ is held while a client is called, and never while this waits for the thread of
// the site.
class RaftSite {
 public:
  // Opens the log of a site, or begins it. Returns kStorage; kCorruption for a log that has lost
  // something or is that of another replica; kSchema for that of a later version of TopicDB; and
  // kInvalidArgument.
  static Result<std::unique_ptr<RaftSite>> Open(const RaftSiteOptions& options);
  // Makes the replica of `options` the only member of all groups of its log, which no site has
  // open. What others have acknowledged, and the log lacks, is lost. May be repeated. Returns
  // kInvalidArgument if there is no log or the replica does not vote in some group, and what Open
  // returns; then nothing was changed.
  static Status BeAlone(const RaftSiteOptions& options);
  // Ends the threads. REQUIRES: no other call is under way
  ~RaftSite();
  RaftSite(const RaftSite&) = delete;
  RaftSite& operator=(const RaftSite&) = delete;

  std::uint64_t replica() const { return replica_; }
  std::uint16_t port() const;
  // Says where a replica is, host:port; with "", that it is nowhere any more.
  Status SetPeer(std::uint64_t replica, const std::string& address);
  // Returns the groups that the log had when it was opened.
  Result<std::vector<std::uint64_t>> Groups() const;

  // Takes part in a group. `client` must stay valid until Leave returns. The client has applied all
  // entries up to `applied`, on disk. Absent: it has lost what it had applied, and gets
  // no entries until NoteRefilled is called, or a snapshot is installed. If the log does not have
  // the group, makes it with `voters`, its first members; without any, the group is there at
  // others, and gives this replica a snapshot. Returns kCorruption if the log does not go on from
  // `applied`; then it may be called again without that.
  Status Join(std::uint64_t group, const std::vector<std::uint64_t>& voters,
              std::optional<std::uint64_t> applied, RaftClient* client) TOPICDB_EXCLUDES(mutex_);
  // Makes no more calls to the client of a group. The group takes part until the site is closed.
  void Leave(std::uint64_t group) TOPICDB_EXCLUDES(mutex_);

  // Proposes entries that become neighbours in the log, and waits until they are committed. Returns
  // the place of the last one. Returns kNotLeader if the last one surely is not in the log and
  // never will be, kUnknownOutcome if it may be, and what Open returns if the site has stopped.
  Result<LogPlace> Propose(std::uint64_t group, const std::vector<std::string>& entries,
                           std::chrono::milliseconds patience);
  // Changes the members of a group that this replica leads, and waits until those that are not
  // named have left. A new voter should have learnt before. Returns kNotLeader; kConflict if
  // another change is under way, or if it cannot be; and kUnknownOutcome if it may still happen.
  Status Change(std::uint64_t group, const std::vector<std::uint64_t>& voters,
                const std::vector<std::uint64_t>& learners, std::chrono::milliseconds patience);
  // Hands leadership over to another voter, and waits until that one leads. Returns kNotLeader,
  // and kUnknownOutcome if that may still happen.
  Status Transfer(std::uint64_t group, std::uint64_t to, std::chrono::milliseconds patience);
  // Waits until everything is applied here that was acknowledged before, at any replica. Returns
  // kStale if that takes longer than `patience`, as without a majority.
  Status ReadBarrier(std::uint64_t group, std::chrono::milliseconds patience);
  Result<RaftStatus> StatusOf(std::uint64_t group) const;
  // Asks another replica of a group, whose client answers. Returns kUnknownOutcome without an
  // answer in time, kNotFound if that client has returned an error, and kNotLeader if no connection
  // came within `connect_patience`, so that it was not asked. By default that is `patience`.
  Result<std::string> Ask(std::uint64_t replica, std::uint64_t group, std::string_view request,
                          std::chrono::milliseconds patience,
                          std::optional<std::chrono::milliseconds> connect_patience = std::nullopt);
  // Asks whoever is at an address what concerns a site, for a program that is none yet. Only the
  // files of `options` are used. Returns what Ask returns.
  static Result<std::string> AskAt(const std::string& address, const RaftSiteOptions& options,
                                   std::string_view request, std::chrono::milliseconds patience);
  // Says who answers what is asked with kSiteGroup, which concerns the site and no group of it.
  // Null: nobody, once the call returns.
  void AnswerBy(RaftAnswerer* answerer) TOPICDB_EXCLUDES(mutex_);
  // Says that a replica is a member of no group any more. The site takes nothing of the consensus
  // from it, since it may not know that, and ask for votes with others that are none.
  void NoteLeft(std::uint64_t replica);
  // Says up to which entry the client has applied everything, and has it on disk.
  void NoteApplied(std::uint64_t group, std::uint64_t index);
  void NoteFlushed(std::uint64_t group, std::uint64_t index);
  // Says that the client had lost what it had applied, and has everything up to this entry from
  // another replica, on disk. It gets all entries behind that one, also those it has had before.
  void NoteRefilled(std::uint64_t group, std::uint64_t index);
  // Hands over the snapshot that MakeSnapshot asked for: the last entry in it and its manifest, or
  // index 0 if there is none.
  void NoteSnapshotTaken(std::uint64_t group, std::uint64_t index, const std::string& manifest);
  void NoteSnapshotFetched(std::uint64_t group, bool is_here);

 private:
  // The functions that the C interface calls.
  struct Callbacks;

  explicit RaftSite(std::uint64_t replica) : replica_(replica) {}

  const std::uint64_t replica_;
  topicdb_raft_site* site_ = nullptr;
  Mutex mutex_;
  CondVar answered_;
  std::map<std::uint64_t, RaftClient*> clients_ TOPICDB_GUARDED_BY(mutex_);
  RaftAnswerer* answerer_ TOPICDB_GUARDED_BY(mutex_) = nullptr;        // of kSiteGroup
  std::map<std::uint64_t, int> answering_ TOPICDB_GUARDED_BY(mutex_);  // calls of Answer, by group
  Status stopped_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
