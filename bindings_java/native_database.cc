// Databases: opening one, and planning what tasks read.
#include <memory>

#include "convert.h"
#include "guard.h"
#include "native.h"
#include "topicdb/database.h"

namespace topicdb::java {

namespace {

jobjectArray SlicesOf(JNIEnv* env, const std::vector<Slice>& slices) {
  std::vector<std::string_view> classes;
  std::vector<jlong> numbers;
  for (const Slice& slice : slices) {
    classes.emplace_back(slice.retention_class);
    numbers.insert(
        numbers.end(),
        {static_cast<jlong>(slice.slab.shard), static_cast<jlong>(slice.slab.generation.value()),
         static_cast<jlong>(slice.after.value()), static_cast<jlong>(slice.until.value()),
         NumberOf(slice.range.start), NumberOf(slice.range.end), static_cast<jlong>(slice.messages),
         static_cast<jlong>(slice.bytes), static_cast<jlong>(slice.layout)});
  }
  return PairOf(env, ArrayOf(env, classes), ArrayOf(env, numbers));
}

}  // namespace

}  // namespace topicdb::java

using namespace topicdb;        // NOLINT: the functions below must stand outside
using namespace topicdb::java;  // NOLINT

TOPICDB_NATIVE(jbyteArray, version)(JNIEnv* env, jclass) {
  return Guarded(env, [&] { return BytesOf(env, TOPICDB_VERSION); });
}

TOPICDB_NATIVE(void, checkFilter)(JNIEnv* env, jclass, jbyteArray filter) {
  Guarded(env, [&] { Check(Filter::Parse(TextOf(env, filter)).status()); });
}

TOPICDB_NATIVE(void, checkTopic)(JNIEnv* env, jclass, jbyteArray topic) {
  Guarded(env, [&] { Check(CheckTopic(TextOf(env, topic))); });
}

TOPICDB_NATIVE(jlong, open)(JNIEnv* env, jclass, jbyteArray path, jint shard) {
  return Guarded(env, [&] {
    OpenOptions options;
    options.read_only = true;
    if (shard >= 0) options.only_shards = {static_cast<std::uint32_t>(shard)};
    return HandleOf(Unwrap(Database::Open(TextOf(env, path), options)).release());
  });
}

TOPICDB_NATIVE(void, close)(JNIEnv* env, jclass, jlong database) {
  Guarded(env, [&] { const std::unique_ptr<Database> closed(&ObjectOf<Database>(database)); });
}

TOPICDB_NATIVE(jobjectArray, slabs)(JNIEnv* env, jclass, jlong database) {
  return Guarded(env, [&] {
    const std::vector<SlabInfo> slabs = Unwrap(ObjectOf<Database>(database).upkeep().Slabs());
    std::vector<std::string_view> classes;
    std::vector<jlong> numbers;
    for (const SlabInfo& slab : slabs) {
      classes.emplace_back(slab.retention_class);
      numbers.push_back(slab.id.shard);
      numbers.push_back(slab.id.generation.value());
      numbers.push_back(static_cast<jlong>(slab.read_only));
    }
    return PairOf(env, ArrayOf(env, classes), ArrayOf(env, numbers));
  });
}

TOPICDB_NATIVE(jobjectArray, slices)
(JNIEnv* env, jclass, jlong database, jobjectArray filters, jlongArray range, jlongArray after,
 jlongArray until, jlong bytes_max) {
  return Guarded(env, [&] {
    const std::vector<jlong> times = NumbersOf(env, range);
    const SliceOptions options{{OptionalOf(times.at(0)), OptionalOf(times.at(1))},
                               SerialsOf(env, after),
                               SerialsOf(env, until),
                               static_cast<std::uint64_t>(bytes_max)};
    return SlicesOf(env,
                    Unwrap(ObjectOf<Database>(database).Slices(FiltersOf(env, filters), options)));
  });
}
