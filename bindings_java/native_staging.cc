// Jobs: tasks stage rows, and the driver commits what they have staged.
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "convert.h"
#include "guard.h"
#include "native.h"
#include "topicdb/arrow.h"
#include "topicdb/database.h"
#include "topicdb/envelope.h"
#include "topicdb/job.h"

namespace topicdb::java {

namespace {

// A column of rows that Java gives: its name, and its type in Arrow's notation.
struct Column {
  const char* name;
  const char* format;
};
// In the order of RowBuffer.java, which may lack the last and the second one.
constexpr std::array<Column, 4> kColumns{
    {{"topic", "u"}, {"timestamp", "tsu:UTC"}, {"value", "z"}, {"key", "z"}}};
constexpr std::size_t kColumnNumbers = 3;  // addresses: validity, offsets or numbers, bytes

// Rows in memory of Java, as Arrow data. It points into `addresses` of that memory, and lives
// during one call.
class GivenRows {
 public:
  GivenRows(std::int64_t rows, const std::vector<jlong>& addresses) {
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const jlong* const mine = &addresses.at(i * kColumnNumbers);
      if (mine[1] != 0) Add(kColumns[i], rows, mine);
    }
    schema_.format = "+s";
    schema_.n_children = static_cast<std::int64_t>(count_);
    schema_.children = schema_pointers_.data();
    array_.length = rows;
    array_.n_buffers = 1;
    array_.buffers = no_validity_.data();
    array_.n_children = static_cast<std::int64_t>(count_);
    array_.children = array_pointers_.data();
  }
  GivenRows(const GivenRows&) = delete;
  GivenRows& operator=(const GivenRows&) = delete;

  const ArrowSchema& schema() const { return schema_; }
  const ArrowArray& array() const { return array_; }

 private:
  void Add(const Column& column, std::int64_t rows, const jlong* addresses) {
    ArrowSchema& schema = schemas_[count_];
    schema.format = column.format;
    schema.name = column.name;
    schema.flags = ARROW_FLAG_NULLABLE;
    ArrowArray& array = arrays_[count_];
    for (std::size_t i = 0; i < kColumnNumbers; ++i) {
      buffers_[count_][i] = std::bit_cast<const void*>(addresses[i]);
    }
    array.length = rows;
    array.null_count = -1;  // not counted
    array.n_buffers = addresses[2] == 0 ? 2 : 3;
    array.buffers = buffers_[count_].data();
    schema_pointers_[count_] = &schema;
    array_pointers_[count_] = &array;
    ++count_;
  }

  std::size_t count_ = 0;
  std::array<ArrowSchema, kColumns.size()> schemas_{};
  std::array<ArrowArray, kColumns.size()> arrays_{};
  std::array<ArrowSchema*, kColumns.size()> schema_pointers_{};
  std::array<ArrowArray*, kColumns.size()> array_pointers_{};
  std::array<std::array<const void*, kColumnNumbers>, kColumns.size()> buffers_{};
  std::array<const void*, 1> no_validity_{};
  ArrowSchema schema_{};
  ArrowArray array_{};
};

void AppendRows(StagedWriter& writer, const GivenRows& rows) {
  const ArrowMessages import = Unwrap(ArrowMessages::Make(rows.schema()));
  std::vector<MessageView> messages;
  std::vector<std::optional<std::string_view>> keys;
  Check(import.Append(rows.array(), 0, &messages, &keys));
  std::deque<std::string> escaped;  // values that look like envelopes and are none
  for (MessageView& message : messages) {
    if (!MayBeEnvelope(message.value)) continue;
    if (auto value = EscapedValue(message.value)) {
      message.value = escaped.emplace_back(std::move(*value));
    }
  }
  MessageKeys given;
  if (import.has_keys()) given.each = keys;
  Check(writer.Append(messages, given));
}

}  // namespace

}  // namespace topicdb::java

using namespace topicdb;        // NOLINT: the functions below must stand outside
using namespace topicdb::java;  // NOLINT

TOPICDB_NATIVE(jboolean, shardsByKey)(JNIEnv* env, jclass, jbyteArray path) {
  return Guarded(env, [&]() -> jboolean {
    const Schema schema = Unwrap(Database::ReadSchema(TextOf(env, path)));
    return static_cast<jboolean>(schema.shard_by == ShardBy::kKey);
  });
}

TOPICDB_NATIVE(jlong, stage)
(JNIEnv* env, jclass, jbyteArray path, jbyteArray job, jboolean drop_malformed) {
  return Guarded(env, [&] {
    StageOptions options;
    options.drop_malformed = drop_malformed != 0;
    return HandleOf(
        Unwrap(StagedWriter::Open(TextOf(env, path), TextOf(env, job), options)).release());
  });
}

TOPICDB_NATIVE(void, append)
(JNIEnv* env, jclass, jlong stage, jint rows, jlongArray addresses) {
  Guarded(env, [&] {
    AppendRows(ObjectOf<StagedWriter>(stage), GivenRows(rows, NumbersOf(env, addresses)));
  });
}

TOPICDB_NATIVE(jbyteArray, finish)(JNIEnv* env, jclass, jlong stage, jlongArray counts) {
  return Guarded(env, [&] {
    const StagedTask task = Unwrap(ObjectOf<StagedWriter>(stage).Finish());
    const std::array<jlong, 3> numbers{static_cast<jlong>(task.messages),
                                       static_cast<jlong>(task.bytes),
                                       static_cast<jlong>(task.malformed)};
    env->SetLongArrayRegion(counts, 0, numbers.size(), numbers.data());
    CheckJava(env);
    return BytesOf(env, task.file);
  });
}

TOPICDB_NATIVE(void, endStage)(JNIEnv* env, jclass, jlong stage) {
  Guarded(env, [&] { const std::unique_ptr<StagedWriter> ended(&ObjectOf<StagedWriter>(stage)); });
}

TOPICDB_NATIVE(jlongArray, commitJob)
(JNIEnv* env, jclass, jbyteArray path, jbyteArray job, jobjectArray files, jbyteArray sequence,
 jlong number, jlong malformed, jlong timeout_us) {
  return Guarded(env, [&] {
    const JobCommit commit{TextOf(env, job),
                           TextsOf(env, files),
                           TextOf(env, sequence),
                           static_cast<std::uint64_t>(number),
                           static_cast<std::uint64_t>(malformed),
                           std::chrono::microseconds(timeout_us)};
    const JobReceipt receipt = Unwrap(CommitJob(TextOf(env, path), commit));
    return ArrayOf(env, std::vector<jlong>(receipt.pending.begin(), receipt.pending.end()));
  });
}

TOPICDB_NATIVE(void, abortJob)(JNIEnv* env, jclass, jbyteArray path, jbyteArray job) {
  Guarded(env, [&] { Check(AbortJob(TextOf(env, path), TextOf(env, job))); });
}
