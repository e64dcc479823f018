/* The replicated log of a site, for C++. docs/internals/consensus.md says how it works.
 *
 * A site takes part in many groups, each with a log of its own. What is proposed to a group, and committed,
 * comes to the clients of all its replicas: each entry once, in the same order.
 *
 * Threads: any thread may call any function, until topicdb_raft_close is called. Functions that take a time
 * limit, and those that open, make and remove, wait for the thread of the site or for another site. The thread
 * of the site makes all the callbacks but `answer`, one at a time, and does nothing else meanwhile: a callback
 * hands over, and returns. It may call topicdb_raft_applied, _refilled, _flushed, _snapshot_taken and
 * _snapshot_fetched; the functions that wait refuse to be called from it. A callback must not throw.
 *
 * Errors: functions return a topicdb_raft_code. If it is neither OK nor one of the outcomes, and `error` is
 * not null, *error gets a text that says what to do; topicdb_raft_ask gives one for all codes but OK. It belongs
 * to the caller, who gives it to topicdb_raft_free. On success *error is not touched. A broken invariant of the
 * consensus does not end the process: the site stops, and says so by `stopped`.
 */
#ifndef TOPICDB_RAFT_H
#define TOPICDB_RAFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. topicdb_raft_open refuses another one. */
#define TOPICDB_RAFT_INTERFACE 6

typedef enum topicdb_raft_code {
  TOPICDB_RAFT_OK = 0,         /* done; of a proposal: committed */
  TOPICDB_RAFT_NOT_LEADER = 1, /* it surely was not proposed, or is not in the log: another replica leads */
  TOPICDB_RAFT_UNKNOWN = 2,    /* the proposal may be in the log, now or later */
  TOPICDB_RAFT_TIMED_OUT = 3,  /* no answer in time */
  TOPICDB_RAFT_REFUSED = 4,    /* a wrong call, which did nothing */
  TOPICDB_RAFT_DISK = 5,       /* the disk failed: the site takes part no more */
  TOPICDB_RAFT_DAMAGED = 6,    /* the log has lost something: the replica must come back as a new one */
  TOPICDB_RAFT_FOREIGN = 7,    /* the directory belongs to another replica */
  TOPICDB_RAFT_TOO_NEW = 8,    /* a newer version has written the log */
  TOPICDB_RAFT_BROKEN = 9,     /* a fault of this library */
  TOPICDB_RAFT_NO_ANSWER = 10, /* the other site was asked, and does not answer this */
  TOPICDB_RAFT_NOT_ASKED = 11  /* no connection came in time: the other site was not asked */
} topicdb_raft_code;

typedef enum topicdb_raft_role {
  TOPICDB_RAFT_FOLLOWER = 0,
  TOPICDB_RAFT_CANDIDATE = 1,
  TOPICDB_RAFT_LEADER = 2
} topicdb_raft_role;

/* Bytes that whoever passes them owns; they are there until the call returns. */
typedef struct topicdb_raft_bytes {
  const uint8_t* data;
  size_t size;
} topicdb_raft_bytes;

typedef struct topicdb_raft_entry {
  uint64_t index; /* one more than that of the entry before */
  uint64_t term;
  topicdb_raft_bytes data; /* empty if a new leader began, or members changed */
  const void* owner;       /* of the data; for topicdb_raft_keep */
} topicdb_raft_entry;

/* Bytes of this library that the caller has, and frees. Any thread may do that, also after topicdb_raft_close. */
typedef struct topicdb_raft_buffer topicdb_raft_buffer;

/* What a callback answers by. It is there until the callback returns. */
typedef struct topicdb_raft_reply topicdb_raft_reply;

/* What a site calls. `context` is passed through. All functions are needed, but for `answer`. */
typedef struct topicdb_raft_client {
  void* context;
  /* Entries of a group that are committed. topicdb_raft_applied says when they are applied. */
  void (*committed)(void* context, uint64_t group, const topicdb_raft_entry* entries, size_t count);
  /* `leader` is 0 while none is known. */
  void (*role_changed)(void* context, uint64_t group, topicdb_raft_role role, uint64_t term, uint64_t leader);
  /* Begin to take a snapshot of what is applied; topicdb_raft_snapshot_taken hands it over. */
  void (*take_snapshot)(void* context, uint64_t group);
  /* Returns 1 if the data of the snapshot is here already. Else begin to fetch it, and return 0;
   * topicdb_raft_snapshot_fetched says how that ended. A later call replaces an earlier one. */
  int (*fetch_snapshot)(void* context, uint64_t group, uint64_t index, topicdb_raft_bytes manifest);
  /* Put what was fetched in the place of the group's data, which is then that after entry `index`.
   * Returns 1 once that is durable, or 0 if it failed, which ends the site. */
  int (*install_snapshot)(void* context, uint64_t group, uint64_t index, topicdb_raft_bytes manifest);
  /* The site takes part no more, and makes no more calls, but for `answer`. */
  void (*stopped)(void* context, topicdb_raft_code code, const char* error);
  /* Replica `from` asks, or with 0 a program that has none; topicdb_raft_reply_with answers. Threads of their own
   * make this call, several at once, also before topicdb_raft_open returns, and until topicdb_raft_close does. It
   * may take long, and may call all functions but topicdb_raft_close, which waits for it. Null: the site answers
   * nobody. */
  void (*answer)(void* context, uint64_t from, topicdb_raft_bytes request, topicdb_raft_reply* reply);
} topicdb_raft_client;

/* Texts are UTF-8 and end with a zero byte. */
typedef struct topicdb_raft_options {
  uint32_t interface_version; /* TOPICDB_RAFT_INTERFACE */
  uint32_t tick_ms;           /* 0: 50 */
  uint32_t election_ticks;    /* 0: 10. At least this long without a leader, at most twice as long */
  uint32_t heartbeat_ticks;   /* 0: 2. Less than election_ticks */
  const char* directory;      /* of the log; made if it is not there */
  uint8_t site[16];           /* the random id of the site */
  uint64_t incarnation;       /* how often the site began with an empty log */
  uint64_t replica;           /* the id in all groups, never used before; not 0 */
  const char* listen;         /* host:port; port 0 takes a free one */
  const char* authority;      /* files in PEM, for all addresses but loopback ones; null: no TLS */
  const char* certificate;
  const char* key;
} topicdb_raft_options;

typedef struct topicdb_raft_status {
  topicdb_raft_role role;
  uint64_t leader;  /* 0: none is known */
  uint64_t term;
  uint64_t commit;  /* the last entry that is known to be committed */
  uint64_t applied; /* by the client here */
  uint64_t first;   /* the first entry in the log */
  uint64_t last;
  size_t members;
} topicdb_raft_status;

typedef struct topicdb_raft_member {
  uint64_t replica;
  uint64_t matched; /* the last entry that it has; only a leader knows it, else 0 */
  uint8_t is_voter; /* else it learns */
  uint8_t is_leaving;
  uint8_t is_active; /* it answered lately; only a leader knows */
  uint8_t gets_snapshot;
} topicdb_raft_member;

typedef struct topicdb_raft_site topicdb_raft_site;

/* Opens the log of a site, or begins it, and starts its threads. Groups of the log take part once
 * topicdb_raft_open_group is called for each. `options` and `client` are copied. */
topicdb_raft_code topicdb_raft_open(const topicdb_raft_options* options, const topicdb_raft_client* client,
                                    topicdb_raft_site** site, char** error);

/* Ends the threads of a site and frees it. Calls that wait end then, proposals as UNKNOWN; no callback comes
 * afterwards. Apart from a callback that answers, no thread may begin another call at the same time, or later.
 * Not from a callback. */
topicdb_raft_code topicdb_raft_close(topicdb_raft_site* site, char** error);

/* Returns the port at which the site listens, or 0 if `site` is null. */
uint16_t topicdb_raft_port(const topicdb_raft_site* site);

/* Says where a replica is, host:port, or with null that it is nowhere any more. */
topicdb_raft_code topicdb_raft_set_peer(topicdb_raft_site* site, uint64_t replica, const char* address,
                                        char** error);

/* The site takes nothing more of the consensus from a replica that is a member of its groups no more, and may not
 * know that. Does not wait. */
void topicdb_raft_exclude(topicdb_raft_site* site, uint64_t replica);

/* Makes the replica of `options` the only member of all groups of its log, so that it can go on when a majority is
 * lost for good. What others have acknowledged, and this log lacks, is lost. No program has the log open meanwhile.
 * REFUSED: there is no log, or the replica does not vote in some group; nothing was changed. May be repeated. */
topicdb_raft_code topicdb_raft_be_alone(const topicdb_raft_options* options, char** error);

/* Copies the groups that the log had when it was opened, up to `capacity`, and sets *count to their number. */
topicdb_raft_code topicdb_raft_groups(const topicdb_raft_site* site, uint64_t* groups, size_t capacity,
                                      size_t* count, char** error);

/* Makes a group, which is durable when this returns. All its first voters make it with the same `voters`,
 * and their clients begin behind entry 1. A replica that joins later makes it with none, and its client
 * waits for a snapshot. */
topicdb_raft_code topicdb_raft_create_group(topicdb_raft_site* site, uint64_t group, const uint64_t* voters,
                                            size_t count, char** error);

/* Takes part in a group of the log. The client has applied everything up to `applied`, on disk: the entries
 * behind it come by `committed`. */
topicdb_raft_code topicdb_raft_open_group(topicdb_raft_site* site, uint64_t group, uint64_t applied,
                                          char** error);

/* The same for a client that has lost what it had applied, while the log has lost nothing: the replica votes,
 * and takes entries. The client gets none until topicdb_raft_refilled is called, or a snapshot comes. */
topicdb_raft_code topicdb_raft_open_damaged_group(topicdb_raft_site* site, uint64_t group, char** error);

/* Forgets a group and its log. Only after the other members have changed so that this is none. */
topicdb_raft_code topicdb_raft_remove_group(topicdb_raft_site* site, uint64_t group, char** error);

/* Proposes entries of 1 byte to 1 MiB, which become neighbours in the log, and waits until they are
 * committed: OK. NOT_LEADER: the last of them is surely not in the log, and never will be. UNKNOWN: it may
 * be; if *index is not 0, what is committed at *index tells. *index and *term are those of the last entry,
 * for OK and UNKNOWN; *leader is who leads, or 0, for NOT_LEADER. The three may be null. */
topicdb_raft_code topicdb_raft_propose(topicdb_raft_site* site, uint64_t group,
                                       const topicdb_raft_bytes* entries, size_t count, uint64_t limit_ms,
                                       uint64_t* index, uint64_t* term, uint64_t* leader, char** error);

/* Waits until everything that was acknowledged before is applied here, at any replica. */
topicdb_raft_code topicdb_raft_read_barrier(topicdb_raft_site* site, uint64_t group, uint64_t limit_ms,
                                            char** error);

/* Changes the members to these, and waits until old ones have left. Only at the leader. TIMED_OUT: it may
 * still happen; the status tells. A new voter should have learnt before. */
topicdb_raft_code topicdb_raft_change(topicdb_raft_site* site, uint64_t group, const uint64_t* voters,
                                      size_t voter_count, const uint64_t* learners, size_t learner_count,
                                      uint64_t limit_ms, char** error);

/* Hands leadership over to a voter, and waits until it leads. Only at the leader. */
topicdb_raft_code topicdb_raft_transfer(topicdb_raft_site* site, uint64_t group, uint64_t to,
                                        uint64_t limit_ms, char** error);

/* The client has applied everything up to an entry. Does not wait. */
void topicdb_raft_applied(topicdb_raft_site* site, uint64_t group, uint64_t index);

/* The client had lost what it had applied, and has got everything up to an entry from another replica, on disk.
 * All entries behind that come by `committed`, also those that came before. The log must have them, up to the
 * one at `index`. Does not wait. */
void topicdb_raft_refilled(topicdb_raft_site* site, uint64_t group, uint64_t index);

/* The client has everything up to an entry on disk: the log may forget it. Does not wait. */
void topicdb_raft_flushed(topicdb_raft_site* site, uint64_t group, uint64_t index);

/* Hands over the snapshot that `take_snapshot` asked for: the last entry that it has, and what the clients
 * of other replicas need to fetch and install it (at most 1 MiB). Index 0: there is none. Does not wait. */
void topicdb_raft_snapshot_taken(topicdb_raft_site* site, uint64_t group, uint64_t index,
                                 topicdb_raft_bytes manifest);

/* The data that `fetch_snapshot` asked for is here (1), or will not come (0). Does not wait. */
void topicdb_raft_snapshot_fetched(topicdb_raft_site* site, uint64_t group, int is_here);

/* Describes a group, and copies its members, up to `capacity`. `members` may be null. */
topicdb_raft_code topicdb_raft_get_status(topicdb_raft_site* site, uint64_t group, topicdb_raft_status* status,
                                          topicdb_raft_member* members, size_t capacity, char** error);

/* The largest request, and the largest answer. */
#define TOPICDB_RAFT_PAYLOAD_MAX ((8u << 20) - 13)

/* Asks another replica, whose site calls `answer`, and waits. OK: *answer gets the answer, which the caller
 * frees. NO_ANSWER: the other site was asked, and does not answer this. NOT_ASKED: no connection came within
 * `connect_ms`, or the address of the replica is not known, at once; nobody was asked. TIMED_OUT: no answer came
 * within `limit_ms`, which counts from the call, or none can come any more, since the connection broke or this site
 * is closed; the other site may have been asked, once. REFUSED: the request is too large; nobody was asked.
 * At most 16 requests to a replica are under way. Others wait for one of these to end, as for a connection. */
topicdb_raft_code topicdb_raft_ask(topicdb_raft_site* site, uint64_t replica, topicdb_raft_bytes request,
                                   uint64_t connect_ms, uint64_t limit_ms, topicdb_raft_buffer** answer,
                                   char** error);

/* Asks whichever site is at an address, host:port, without being one, and waits. That site calls `answer` with
 * `from` 0. The three files are those of topicdb_raft_options. Returns what topicdb_raft_ask returns; NOT_ASKED
 * comes after 5 seconds at most. */
topicdb_raft_code topicdb_raft_ask_at(const char* address, const char* authority, const char* certificate,
                                      const char* key, topicdb_raft_bytes request, uint64_t limit_ms,
                                      topicdb_raft_buffer** answer, char** error);

/* Answers a request. The bytes are copied. Of several answers the last one counts. One that is too large is
 * none. */
void topicdb_raft_reply_with(topicdb_raft_reply* reply, topicdb_raft_bytes answer);

/* Has the data of an entry outlast the callback `committed` that has brought it, without a copy. It stays where it
 * is, and may keep a larger message in memory. Of null: null. */
topicdb_raft_buffer* topicdb_raft_keep(const topicdb_raft_entry* entry);

/* The bytes of a buffer; of null: none. */
const uint8_t* topicdb_raft_buffer_data(const topicdb_raft_buffer* buffer);
size_t topicdb_raft_buffer_size(const topicdb_raft_buffer* buffer);

/* Frees a buffer. Null is allowed. */
void topicdb_raft_buffer_free(topicdb_raft_buffer* buffer);

/* Frees a text of `error`. Null is allowed. */
void topicdb_raft_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
