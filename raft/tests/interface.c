/* Uses the C functions as a client does: three sites in one process, one of which is closed and comes back.
 * Its only argument is an empty directory. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topicdb_raft.h"

#define SITES 3
#define GROUP 1
#define VALUES 200
#define LIMIT_MS 30000

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition);   \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

/* The data of a site: the values of group 1, in order. */
typedef struct replica {
  topicdb_raft_site* site;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t applied;
  unsigned values[2 * VALUES];
  topicdb_raft_buffer* kept[2 * VALUES]; /* what the values were copied of */
  size_t count;
  topicdb_raft_role role;
  topicdb_raft_code refused; /* what a function that waits said within a callback */
  int answers;               /* callbacks that have begun to answer "wait", */
  int answered;              /* and those that returned */
} replica;

static replica replicas[SITES];
static const char* folder;

static void ok(topicdb_raft_code code, char* error) {
  if (code != TOPICDB_RAFT_OK) fprintf(stderr, "code %d: %s\n", (int)code, error != NULL ? error : "");
  CHECK(code == TOPICDB_RAFT_OK);
}

static void committed(void* context, uint64_t group, const topicdb_raft_entry* entries, size_t count) {
  replica* own = context;
  CHECK(group == GROUP);
  pthread_mutex_lock(&own->lock);
  for (size_t i = 0; i < count; i++) {
    CHECK(entries[i].index == own->applied + 1);
    own->applied = entries[i].index;
    if (entries[i].data.size == 0) continue;
    CHECK(entries[i].data.size == sizeof(unsigned) && own->count < 2 * VALUES);
    own->kept[own->count] = topicdb_raft_keep(&entries[i]);
    memcpy(&own->values[own->count++], entries[i].data.data, sizeof(unsigned));
  }
  if (own->site != NULL) {
    topicdb_raft_applied(own->site, group, own->applied);
    char* error = NULL;
    own->refused = topicdb_raft_read_barrier(own->site, group, LIMIT_MS, &error);
    topicdb_raft_free(error);
  }
  pthread_cond_broadcast(&own->changed);
  pthread_mutex_unlock(&own->lock);
}

static void role_changed(void* context, uint64_t group, topicdb_raft_role role, uint64_t term, uint64_t leader) {
  replica* own = context;
  (void)group, (void)term, (void)leader;
  pthread_mutex_lock(&own->lock);
  own->role = role;
  pthread_cond_broadcast(&own->changed);
  pthread_mutex_unlock(&own->lock);
}

static void take_snapshot(void* context, uint64_t group) { (void)context, (void)group; }

static int no_snapshot(void* context, uint64_t group, uint64_t index, topicdb_raft_bytes manifest) {
  (void)context, (void)group, (void)index, (void)manifest;
  return 0;
}

static void stopped(void* context, topicdb_raft_code code, const char* error) {
  (void)context;
  fprintf(stderr, "a site stopped: %d %s\n", (int)code, error);
  exit(1);
}

/* Waits for a majority that group 2 does not have, until the site is closed. */
static void wait_for_close(replica* own, topicdb_raft_site* site) {
  pthread_mutex_lock(&own->lock);
  own->answers++;
  pthread_cond_broadcast(&own->changed);
  pthread_mutex_unlock(&own->lock);
  char* error = NULL;
  CHECK(topicdb_raft_read_barrier(site, 2, 100 * LIMIT_MS, &error) == TOPICDB_RAFT_REFUSED);
  CHECK(strstr(error, "closed") != NULL);
  topicdb_raft_free(error);
  topicdb_raft_buffer* buffer = NULL;
  CHECK(topicdb_raft_ask(site, 2, (topicdb_raft_bytes){NULL, 0}, LIMIT_MS, LIMIT_MS, &buffer, NULL) == TOPICDB_RAFT_TIMED_OUT);
  pthread_mutex_lock(&own->lock);
  own->answered++;
  pthread_mutex_unlock(&own->lock);
}

/* Answers a request by its bytes, backwards; "nothing" and "wait" get no answer. */
static void answer(void* context, uint64_t from, topicdb_raft_bytes request, topicdb_raft_reply* reply) {
  replica* own = context;
  uint8_t bytes[16];
  char* error = NULL;
  CHECK(from >= 1 && from <= SITES && request.size <= sizeof bytes);
  pthread_mutex_lock(&own->lock);
  topicdb_raft_site* site = own->site;
  pthread_mutex_unlock(&own->lock);
  if (request.size == strlen("wait")) {
    wait_for_close(own, site);
    return;
  }
  if (request.size == strlen("nothing")) {
    CHECK(topicdb_raft_close(site, NULL) == TOPICDB_RAFT_REFUSED); /* it would wait for this callback */
    return;
  }
  ok(topicdb_raft_read_barrier(site, GROUP, LIMIT_MS, &error), error); /* it may wait */
  for (size_t i = 0; i < request.size; i++) bytes[i] = request.data[request.size - 1 - i];
  topicdb_raft_reply_with(reply, (topicdb_raft_bytes){bytes, request.size});
}

/* The last site answers no requests. */
static topicdb_raft_client client_of(replica* own) {
  topicdb_raft_client client = {own,         committed, role_changed, take_snapshot, no_snapshot,
                                no_snapshot, stopped,   NULL};
  if (own != &replicas[SITES - 1]) client.answer = answer;
  return client;
}

static topicdb_raft_options options_of(size_t number, const char* directory) {
  topicdb_raft_options options = {0};
  options.interface_version = TOPICDB_RAFT_INTERFACE;
  options.election_ticks = 20; /* a machine may be busy */
  options.directory = directory;
  memset(options.site, (int)number + 1, sizeof options.site);
  options.incarnation = 1;
  options.replica = number + 1;
  options.listen = "127.0.0.1:0";
  return options;
}

static void start(size_t number) {
  replica* own = &replicas[number];
  char directory[4096];
  char* error = NULL;
  snprintf(directory, sizeof directory, "%s/site%zu", folder, number + 1);
  topicdb_raft_options options = options_of(number, directory);
  topicdb_raft_client client = client_of(own);
  topicdb_raft_site* site = NULL;
  ok(topicdb_raft_open(&options, &client, &site, &error), error);
  pthread_mutex_lock(&own->lock);
  own->site = site;
  pthread_mutex_unlock(&own->lock);
  for (size_t i = 0; i < SITES; i++) {
    for (size_t k = 0; k < SITES; k++) {
      if (replicas[i].site == NULL || replicas[k].site == NULL || i == k) continue;
      char address[64];
      snprintf(address, sizeof address, "127.0.0.1:%u", topicdb_raft_port(replicas[k].site));
      ok(topicdb_raft_set_peer(replicas[i].site, k + 1, address, &error), error);
    }
  }
}

static void stop(size_t number) {
  replica* own = &replicas[number];
  char* error = NULL;
  pthread_mutex_lock(&own->lock);
  topicdb_raft_site* site = own->site;
  own->site = NULL;
  own->role = TOPICDB_RAFT_FOLLOWER;
  pthread_mutex_unlock(&own->lock);
  ok(topicdb_raft_close(site, &error), error);
}

/* What was kept of entries is there when their site is closed. */
static void check_kept(replica* own) {
  for (size_t i = 0; i < own->count; i++) {
    CHECK(topicdb_raft_buffer_size(own->kept[i]) == sizeof(unsigned));
    CHECK(memcmp(topicdb_raft_buffer_data(own->kept[i]), &own->values[i], sizeof(unsigned)) == 0);
    topicdb_raft_buffer_free(own->kept[i]);
  }
}

/* Waits until a site has as many values. */
static void wait_for(replica* own, size_t count) {
  pthread_mutex_lock(&own->lock);
  while (own->count < count) pthread_cond_wait(&own->changed, &own->lock);
  pthread_mutex_unlock(&own->lock);
}

/* Proposes a value at whoever leads, until it is acknowledged. Returns who did. */
static size_t propose(unsigned value) {
  for (size_t i = 0;; i = (i + 1) % SITES) {
    if (replicas[i].site == NULL) continue;
    topicdb_raft_bytes entry = {(const uint8_t*)&value, sizeof value};
    uint64_t index = 0, term = 0, leader = 0;
    char* error = NULL;
    topicdb_raft_code code =
        topicdb_raft_propose(replicas[i].site, GROUP, &entry, 1, LIMIT_MS, &index, &term, &leader, &error);
    if (code == TOPICDB_RAFT_NOT_LEADER) continue;
    ok(code, error);
    CHECK(index > 1 && term > 0);
    return i;
  }
}

static void check_refusals(void) {
  topicdb_raft_options options = options_of(0, folder);
  topicdb_raft_client client = client_of(&replicas[0]);
  topicdb_raft_site* site = NULL;
  char* error = NULL;
  options.interface_version = TOPICDB_RAFT_INTERFACE + 1;
  CHECK(topicdb_raft_open(&options, &client, &site, &error) == TOPICDB_RAFT_REFUSED && site == NULL);
  CHECK(strstr(error, "interface") != NULL);
  topicdb_raft_free(error);
  options = options_of(0, folder);
  client.stopped = NULL;
  CHECK(topicdb_raft_open(&options, &client, &site, NULL) == TOPICDB_RAFT_REFUSED && site == NULL);
  CHECK(topicdb_raft_read_barrier(NULL, GROUP, 1, NULL) == TOPICDB_RAFT_REFUSED);
  topicdb_raft_free(NULL);
}

static void check_status(size_t leader) {
  topicdb_raft_status status;
  topicdb_raft_member members[SITES];
  char* error = NULL;
  ok(topicdb_raft_get_status(replicas[leader].site, GROUP, &status, members, SITES, &error), error);
  CHECK(status.role == TOPICDB_RAFT_LEADER && status.leader == leader + 1 && status.members == SITES);
  for (size_t i = 0; i < SITES; i++) CHECK(members[i].replica == i + 1 && members[i].is_voter && !members[i].is_leaving);
  CHECK(topicdb_raft_get_status(replicas[leader].site, 77, &status, NULL, 0, NULL) == TOPICDB_RAFT_REFUSED);
}

/* Asks site 1 from site 2, and the last one, which answers nobody. */
static void check_requests(void) {
  topicdb_raft_site* site = replicas[1].site;
  topicdb_raft_buffer* buffer = NULL;
  char* error = NULL;
  topicdb_raft_bytes request = {(const uint8_t*)"question", 8};
  ok(topicdb_raft_ask(site, 1, request, LIMIT_MS, LIMIT_MS, &buffer, &error), error);
  CHECK(topicdb_raft_buffer_size(buffer) == 8 && memcmp(topicdb_raft_buffer_data(buffer), "noitseuq", 8) == 0);
  topicdb_raft_buffer_free(buffer);
  buffer = NULL;
  static const uint8_t large[TOPICDB_RAFT_PAYLOAD_MAX + 1];
  const struct {
    uint64_t replica;
    topicdb_raft_bytes request;
    uint64_t limit_ms;
    topicdb_raft_code code;
    const char* text;
  } cases[] = {
      {1, {(const uint8_t*)"nothing", 7}, LIMIT_MS, TOPICDB_RAFT_NO_ANSWER, "does not answer this"},
      {3, request, LIMIT_MS, TOPICDB_RAFT_NO_ANSWER, "answers no requests"},
      {77, request, LIMIT_MS, TOPICDB_RAFT_NOT_ASKED, "replica 77"},
      {1, {large, sizeof large}, LIMIT_MS, TOPICDB_RAFT_REFUSED, "ask for less"},
      {1, request, 0, TOPICDB_RAFT_TIMED_OUT, "replica 1 at 127.0.0.1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(topicdb_raft_ask(site, cases[i].replica, cases[i].request, LIMIT_MS, cases[i].limit_ms, &buffer, &error) == cases[i].code);
    CHECK(buffer == NULL && strstr(error, cases[i].text) != NULL);
    topicdb_raft_free(error);
  }
  CHECK(topicdb_raft_ask(site, 1, request, LIMIT_MS, LIMIT_MS, NULL, NULL) == TOPICDB_RAFT_REFUSED);
  CHECK(topicdb_raft_ask(NULL, 1, request, LIMIT_MS, LIMIT_MS, &buffer, NULL) == TOPICDB_RAFT_REFUSED);
}

static void* ask_to_wait(void* unused) {
  topicdb_raft_buffer* buffer = NULL;
  topicdb_raft_bytes request = {(const uint8_t*)"wait", 4};
  CHECK(topicdb_raft_ask(replicas[1].site, 1, request, LIMIT_MS, LIMIT_MS, &buffer, NULL) == TOPICDB_RAFT_TIMED_OUT);
  return unused;
}

/* Closes site 1 while its callback waits for the site. */
static void check_close(void) {
  const uint64_t voters[SITES] = {1, 77, 78};
  replica* own = &replicas[0];
  char* error = NULL;
  pthread_t asks;
  ok(topicdb_raft_create_group(own->site, 2, voters, SITES, &error), error);
  CHECK(pthread_create(&asks, NULL, ask_to_wait, NULL) == 0);
  pthread_mutex_lock(&own->lock);
  while (own->answers == 0) pthread_cond_wait(&own->changed, &own->lock);
  pthread_mutex_unlock(&own->lock);
  stop(0);
  CHECK(own->answered == 1);
  CHECK(pthread_join(asks, NULL) == 0);
}

int main(int argc, char** argv) {
  const uint64_t voters[SITES] = {1, 2, 3};
  char* error = NULL;
  CHECK(argc == 2);
  folder = argv[1];
  check_refusals();
  for (size_t i = 0; i < SITES; i++) {
    pthread_mutex_init(&replicas[i].lock, NULL);
    pthread_cond_init(&replicas[i].changed, NULL);
    start(i);
    replicas[i].applied = 1;
    ok(topicdb_raft_create_group(replicas[i].site, GROUP, voters, SITES, &error), error);
  }
  size_t leader = 0;
  for (unsigned value = 0; value < VALUES / 2; value++) leader = propose(value);
  ok(topicdb_raft_read_barrier(replicas[(leader + 1) % SITES].site, GROUP, LIMIT_MS, &error), error);
  check_status(leader);
  check_requests();

  stop(leader);
  for (unsigned value = VALUES / 2; value < VALUES; value++) CHECK(propose(value) != leader);

  start(leader);
  uint64_t group = 0;
  size_t count = 0;
  ok(topicdb_raft_groups(replicas[leader].site, &group, 1, &count, &error), error);
  CHECK(group == GROUP && count == 1);
  ok(topicdb_raft_open_group(replicas[leader].site, GROUP, replicas[leader].applied, &error), error);
  for (size_t i = 0; i < SITES; i++) {
    wait_for(&replicas[i], VALUES);
    for (unsigned value = 0; value < VALUES; value++) CHECK(replicas[i].values[value] == value);
    CHECK(replicas[i].count == VALUES);
    CHECK(replicas[i].refused == TOPICDB_RAFT_REFUSED); /* a callback may not wait */
  }
  check_close();
  for (size_t i = 1; i < SITES; i++) stop(i);
  for (size_t i = 0; i < SITES; i++) check_kept(&replicas[i]);
  printf("%d values at %d sites\n", VALUES, SITES);
  return 0;
}
