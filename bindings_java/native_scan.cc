// Scans of slices and of the commit log: batches whose memory Java reads by address.
#include <memory>
#include <optional>
#include <utility>

#include "convert.h"
#include "guard.h"
#include "interrupts.h"
#include "native.h"
#include "topicdb/arrow.h"
#include "topicdb/database.h"
#include "topicdb/database/parcel.h"
#include "topicdb/envelope.h"
#include "topicdb/scan.h"
#include "topicdb/tail.h"

namespace topicdb::java {

namespace {

constexpr std::size_t kSliceNumbers = 9;  // Slice.NUMBERS
constexpr std::size_t kGroupNumbers = 5;  // Groups.NUMBERS
// What Java wants of a batch besides times: the numbers of MessageScan.
constexpr jint kValues = 1;
constexpr jint kSerials = 2;
constexpr jint kProperties = 4;
constexpr jint kTopics = 8;
constexpr std::int64_t kBuffersMax = 3;

// Return whether the core must read values, in which properties are, and topics.
bool NeedsValues(jint wanted) { return (wanted & (kValues | kProperties)) != 0; }
bool NeedsTopics(jint wanted) { return (wanted & kTopics) != 0; }

// A batch that is lent to Java: the columns, and the messages that the serials point into. Java
// owns it by its handle.
class LentBatch {
 public:
  LentBatch(std::shared_ptr<const Batch> stored, jint wanted) : stored_(std::move(stored)) {
    const bool with_properties = (wanted & kProperties) != 0;
    // Values that nobody looks at may stay as they are stored.
    ExportBatch(NeedsValues(wanted) ? PayloadsOf(stored_) : stored_,
                with_properties ? stored_ : nullptr, &columns_);
  }
  ~LentBatch() { columns_.release(&columns_); }
  LentBatch(const LentBatch&) = delete;
  LentBatch& operator=(const LentBatch&) = delete;

  // Returns the numbers that Batch.java explains.
  std::vector<jlong> Describe() const {
    const void* const serials = stored_->keeps_serials() ? stored_->serials().data() : nullptr;
    std::vector<jlong> numbers = {static_cast<jlong>(stored_->size()),
                                  static_cast<jlong>(stored_->bytes()), HandleOf(serials)};
    for (std::int64_t i = 0; i < columns_.n_children; ++i) {
      DescribeColumn(*columns_.children[i], &numbers);
    }
    return numbers;
  }

 private:
  static void DescribeColumn(const ArrowArray& column, std::vector<jlong>* numbers) {
    numbers->push_back(column.length);
    numbers->push_back(column.null_count);
    for (std::int64_t i = 0; i < kBuffersMax; ++i) {
      numbers->push_back(i < column.n_buffers ? HandleOf(column.buffers[i]) : 0);
    }
    numbers->push_back(column.n_children);
    for (std::int64_t i = 0; i < column.n_children; ++i) {
      DescribeColumn(*column.children[i], numbers);
    }
  }

  const std::shared_ptr<const Batch> stored_;
  ArrowArray columns_{};
};

// Lends a batch to Java: writes its numbers to `found`, and returns its handle.
jlong Lend(JNIEnv* env, std::shared_ptr<const Batch> batch, jint wanted, jlongArray found) {
  auto lent = std::make_unique<LentBatch>(std::move(batch), wanted);
  const std::vector<jlong> numbers = lent->Describe();
  env->SetLongArrayRegion(found, 0, static_cast<jsize>(numbers.size()), numbers.data());
  CheckJava(env);
  return HandleOf(lent.release());
}
// A read that is under way. Java owns it by its handle.
class Reading {
 public:
  Reading() = default;
  virtual ~Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // Returns the next batch, or null at the end.
  virtual Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                                    const InterruptCheck& interrupted) = 0;
  // Returns what it has read so far.
  virtual ReadCounters Counters() const { return {}; }
};

class ReadingSlices : public Reading {
 public:
  explicit ReadingSlices(std::unique_ptr<Scan> scan) : scan_(std::move(scan)) {}

  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted) override {
    return scan_->Next(limits, interrupted);
  }
  ReadCounters Counters() const override { return scan_->counters(); }

 private:
  const std::unique_ptr<Scan> scan_;
};

class ReadingCommits : public Reading {
 public:
  explicit ReadingCommits(std::unique_ptr<Tail> tail) : tail_(std::move(tail)) {}

  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted) override {
    return tail_->Next(limits, std::nullopt, interrupted);
  }

 private:
  const std::unique_ptr<Tail> tail_;
};

// Unpacks parcels that Java has received, one after the other.
class ReadingParcels : public Reading {
 public:
  explicit ReadingParcels(bool with_values) : reader_(with_values) {}

  Status Begin(std::string_view parcel) { return reader_.Begin(parcel); }
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck&) override {
    return reader_.Next(limits);
  }

 private:
  ParcelReader reader_;
};

std::vector<Slice> SlicesOf(JNIEnv* env, jobjectArray classes, jlongArray numbers) {
  std::vector<std::string> texts = TextsOf(env, classes);
  const std::vector<jlong> all = NumbersOf(env, numbers);
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto number = [&](std::size_t which) { return all.at(i * kSliceNumbers + which); };
    Slice slice;
    slice.slab.shard = static_cast<std::uint32_t>(number(0));
    slice.slab.generation = Generation{static_cast<std::uint32_t>(number(1))};
    slice.retention_class = std::move(texts[i]);
    slice.after = Serial{static_cast<std::uint64_t>(number(2))};
    slice.until = Serial{static_cast<std::uint64_t>(number(3))};
    slice.range = {OptionalOf(number(4)), OptionalOf(number(5))};
    slice.messages = static_cast<std::uint64_t>(number(6));
    slice.bytes = static_cast<std::uint64_t>(number(7));
    slice.layout = static_cast<LayoutKind>(number(8));
    slices.push_back(std::move(slice));
  }
  return slices;
}

// Returns messages whose columns Java has, see GivenBatch.java. The values stay in memory of Java,
// which must live as long as the batch.
std::shared_ptr<const Batch> BatchOf(std::size_t rows, const std::vector<jlong>& addresses) {
  const auto* const topic_offsets = std::bit_cast<const std::int32_t*>(addresses.at(0));
  const auto* const topics = std::bit_cast<const char*>(addresses.at(1));
  const auto* const timestamps = std::bit_cast<const std::int64_t*>(addresses.at(2));
  const auto* const value_offsets = std::bit_cast<const std::int32_t*>(addresses.at(3));
  const auto* const values = std::bit_cast<const char*>(addresses.at(4));
  const auto* const serials = std::bit_cast<const std::uint64_t*>(addresses.at(5));
  const auto batch = std::make_shared<Batch>(serials != nullptr);
  batch->Reserve(rows, static_cast<std::size_t>(topic_offsets[rows]), 0);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto size = static_cast<std::size_t>(topic_offsets[row + 1] - topic_offsets[row]);
    batch->AppendKey({topics + topic_offsets[row], size}, timestamps[row],
                     serials == nullptr ? kNoSerial : Serial{serials[row]});
  }
  const auto nobody = std::make_shared<const char>();  // the caller keeps the values
  batch->BorrowValues(nobody, {value_offsets, rows + 1},
                      {values, static_cast<std::size_t>(value_offsets[rows])});
  return batch;
}

constexpr std::size_t kTopicBytesMax = std::size_t{1} << 30;  // of all groups together

// Returns groups as Groups.java wants them: their topics, one behind the other, and numbers.
jobjectArray ArraysOf(JNIEnv* env, const std::vector<MessageGroup>& groups) {
  std::string topics;
  std::vector<jlong> numbers;
  numbers.reserve(groups.size() * kGroupNumbers);
  for (const MessageGroup& group : groups) {
    topics += group.topic;
    if (topics.size() > kTopicBytesMax) {
      throw Failure(InvalidArgument("a summary has more than a gibibyte of topics: read less"));
    }
    numbers.insert(numbers.end(),
                   {static_cast<jlong>(topics.size()), NumberOf(group.span_start),
                    static_cast<jlong>(group.messages), static_cast<jlong>(group.first_time),
                    static_cast<jlong>(group.last_time)});
  }
  return PairOf(env, BytesOf(env, topics), ArrayOf(env, numbers));
}

}  // namespace

}  // namespace topicdb::java

using namespace topicdb;        // NOLINT: the functions below must stand outside
using namespace topicdb::java;  // NOLINT

TOPICDB_NATIVE(jlong, newScan)
(JNIEnv* env, jclass, jlong database, jobjectArray filters, jobjectArray classes,
 jlongArray numbers, jint wanted) {
  return Guarded(env, [&] {
    const std::vector<Slice> slices = SlicesOf(env, classes, numbers);
    std::unique_ptr<Reading> reading =
        std::make_unique<ReadingSlices>(Unwrap(ObjectOf<Database>(database).NewScan(
            FiltersOf(env, filters), slices, NeedsValues(wanted), NeedsTopics(wanted))));
    return HandleOf(reading.release());
  });
}

TOPICDB_NATIVE(jlong, newTail)
(JNIEnv* env, jclass, jlong database, jobjectArray filters, jlongArray after, jlongArray until) {
  return Guarded(env, [&] {
    const TailOptions options{SerialsOf(env, after), SerialsOf(env, until), {}};
    std::unique_ptr<Reading> reading = std::make_unique<ReadingCommits>(
        Unwrap(ObjectOf<Database>(database).NewTail(FiltersOf(env, filters), options)));
    return HandleOf(reading.release());
  });
}

TOPICDB_NATIVE(jlong, newParcels)(JNIEnv* env, jclass, jint wanted) {
  return Guarded(env, [&] {
    std::unique_ptr<Reading> reading = std::make_unique<ReadingParcels>(NeedsValues(wanted));
    return HandleOf(reading.release());
  });
}

TOPICDB_NATIVE(void, beginParcel)
(JNIEnv* env, jclass, jlong scan, jlong address, jlong size) {
  Guarded(env, [&] {
    // newParcels has made it.
    auto& parcels = static_cast<ReadingParcels&>(ObjectOf<Reading>(scan));
    Check(parcels.Begin({std::bit_cast<const char*>(address), static_cast<std::size_t>(size)}));
  });
}

TOPICDB_NATIVE(jlong, next)
(JNIEnv* env, jclass native, jlong scan, jint rows_max, jlong bytes_max, jint wanted,
 jlongArray found) {
  return Guarded(env, [&]() -> jlong {
    const PageLimits limits{static_cast<std::size_t>(rows_max), static_cast<std::size_t>(bytes_max),
                            (wanted & kSerials) != 0};
    std::shared_ptr<const Batch> batch =
        Unwrap(ObjectOf<Reading>(scan).Next(limits, InterruptsOf(env, native)));
    if (batch == nullptr) return 0;
    return Lend(env, std::move(batch), wanted, found);
  });
}

TOPICDB_NATIVE(jlong, lend)
(JNIEnv* env, jclass, jint rows, jlongArray addresses, jint wanted, jlongArray found) {
  return Guarded(env, [&] {
    return Lend(env, BatchOf(static_cast<std::size_t>(rows), NumbersOf(env, addresses)), wanted,
                found);
  });
}

TOPICDB_NATIVE(void, release)(JNIEnv* env, jclass, jlong batch) {
  Guarded(env, [&] { const std::unique_ptr<LentBatch> ended(&ObjectOf<LentBatch>(batch)); });
}

TOPICDB_NATIVE(jobjectArray, summarize)
(JNIEnv* env, jclass native, jlong database, jobjectArray filters, jobjectArray classes,
 jlongArray numbers, jint levels, jlong span, jlong groups_max, jlong rows_max) {
  return Guarded(env, [&] {
    SummaryOptions options;
    options.topic_levels = levels < 0 ? SummaryOptions::kAllLevels : levels;
    options.span = OptionalOf(span);
    options.groups_max = static_cast<std::size_t>(groups_max);
    options.rows_max = static_cast<std::uint64_t>(rows_max);
    return ArraysOf(env, Unwrap(ObjectOf<Database>(database).Summarize(
                             FiltersOf(env, filters), SlicesOf(env, classes, numbers), options,
                             InterruptsOf(env, native))));
  });
}

TOPICDB_NATIVE(jlongArray, counters)
(JNIEnv* env, jclass, jlong scan) {
  return Guarded(env, [&] {
    const ReadCounters found = ObjectOf<Reading>(scan).Counters();
    const std::uint64_t blocks_skipped = found.blocks_skipped_by_time +
                                         found.blocks_skipped_by_stream +
                                         found.blocks_skipped_by_word;
    const std::uint64_t pages_skipped = found.pages_skipped_by_time + found.pages_skipped_by_topic;
    std::vector<jlong> numbers;
    for (const std::uint64_t number : {found.blocks, blocks_skipped, found.pages_read,
                                       pages_skipped, found.rows_examined, found.bytes_read}) {
      numbers.push_back(static_cast<jlong>(number));
    }
    return ArrayOf(env, numbers);
  });
}

TOPICDB_NATIVE(void, endScan)(JNIEnv* env, jclass, jlong scan) {
  Guarded(env, [&] { const std::unique_ptr<Reading> ended(&ObjectOf<Reading>(scan)); });
}
