// The commit log of a database, as the driver of a stream asks for it: how far it reaches, and how
// much it has.
#include <chrono>

#include "convert.h"
#include "guard.h"
#include "interrupts.h"
#include "native.h"
#include "topicdb/database.h"

using namespace topicdb;        // NOLINT: the functions below must stand outside
using namespace topicdb::java;  // NOLINT

TOPICDB_NATIVE(void, refresh)(JNIEnv* env, jclass, jlong database) {
  Guarded(env, [&] { Check(ObjectOf<Database>(database).Refresh()); });
}

TOPICDB_NATIVE(void, see)
(JNIEnv* env, jclass native, jlong database, jlongArray serials, jlong timeout_us) {
  Guarded(env, [&] {
    const Database& found = ObjectOf<Database>(database);
    const std::chrono::microseconds timeout(timeout_us);
    Check(serials == nullptr
              ? found.AwaitAcknowledged(timeout)
              : found.AwaitCommits(SerialsOf(env, serials), timeout, InterruptsOf(env, native)));
  });
}

TOPICDB_NATIVE(jlongArray, serials)(JNIEnv* env, jclass, jlong database) {
  return Guarded(env, [&] {
    const Stats stats = Unwrap(ObjectOf<Database>(database).GetStats());
    std::vector<jlong> numbers;
    for (const ShardStats& shard : stats.shards) {
      numbers.push_back(shard.shard);
      numbers.push_back(static_cast<jlong>(shard.serial.value()));
    }
    return ArrayOf(env, numbers);
  });
}

TOPICDB_NATIVE(jlongArray, measureLog)
(JNIEnv* env, jclass native, jlong database, jint shard, jobjectArray filters, jlongArray range,
 jlongArray limits, jboolean whole_blocks) {
  return Guarded(env, [&] {
    const std::vector<jlong> bounds = NumbersOf(env, range);
    const std::vector<jlong> most = NumbersOf(env, limits);
    CommitRange commits;
    commits.after = Serial{static_cast<std::uint64_t>(bounds.at(0))};
    if (const auto until = OptionalOf(bounds.at(1))) {
      commits.until = Serial{static_cast<std::uint64_t>(*until)};
    }
    commits.times.start = OptionalOf(bounds.at(2));
    commits.whole_blocks = whole_blocks != 0;
    const CommitSpan span = Unwrap(ObjectOf<Database>(database).MeasureLog(
        static_cast<std::uint32_t>(shard), FiltersOf(env, filters), commits,
        {static_cast<std::size_t>(most.at(0)), static_cast<std::size_t>(most.at(1))},
        InterruptsOf(env, native)));
    return ArrayOf(env, {static_cast<jlong>(span.until.value()), static_cast<jlong>(span.messages),
                         static_cast<jlong>(span.bytes)});
  });
}
