#include "layout/skipstream/skipstream_check.h"

#include <map>
#include <memory>
#include <optional>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "layout/skipstream/skipstream_keys.h"
#include "rocks/rocks_compat.h"

namespace topicdb::skipstream {

namespace {

constexpr std::size_t kPrefixBytes = 6;
constexpr std::uint64_t kReportEvery = 4'096;  // messages

// Checks one slab. Used once, by one thread.
class SlabChecker {
 public:
  SlabChecker(const RocksSource& source, std::uint32_t timestamp_bytes, const SlabCheck& check)
      : source_(source), timestamp_bytes_(timestamp_bytes), check_(check) {}

  Result<CheckCounts> Run() {
    rocksdb::ReadOptions options = Options();
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> records(
        source_.db->NewIterator(options, source_.families.main));
    for (records->SeekToFirst(); records->Valid(); records->Next()) {
      const Status status =
          CheckRecord(records->key().ToStringView(), records->value().ToStringView());
      TOPICDB_RETURN_IF_ERROR(status);
    }
    const Status status = rocks::FromRocks(records->status(), "reading messages");
    if (!status.ok() && status.code() != Code::kCorruption) return status;
    if (!status.ok()) check_.report({status.message()});
    return counts_;
  }

 private:
  rocksdb::ReadOptions Options() const {
    rocksdb::ReadOptions options;
    options.snapshot = source_.snapshot;
    return options;
  }

  Status CheckRecord(std::string_view key, std::string_view value) {
    if (key.size() < kPrefixBytes) {
      check_.report({"a key that is none of a message"});
      return Status::Ok();
    }
    const StreamId stream{ReadBig<std::uint32_t>(key)};
    const auto level = ReadBig<std::uint16_t>(key.substr(4));
    if (stream != stream_) OpenStream(stream);
    if (level == kDataLevel) return CheckMessage(key.substr(kPrefixBytes), value);
    return check_.deep ? CheckIndexEntry(level, key.substr(kPrefixBytes)) : Status::Ok();
  }

  void OpenStream(StreamId stream) {
    stream_ = stream;
    structure_ = check_.structure_of(stream);
    builder_.reset();
    if (structure_.has_value()) {
      builder_ = std::make_unique<TopicBuilder>(*structure_);
    } else {
      check_.report({"the structures of its generation do not know stream " +
                     std::to_string(stream.value())});
    }
  }

  Status CheckMessage(std::string_view suffix, std::string_view bytes) {
    ++counts_.messages;
    DecodedSuffix decoded;
    DecodedValue value;
    const bool has_key = DecodeSuffix(suffix, timestamp_bytes_, &decoded) &&
                         (!structure_ || decoded.words.size() == structure_->VaryingCount());
    if (!has_key || !DecodeValue(bytes, &value)) {
      check_.report({"a message of stream " + std::to_string(stream_.value()) + " is malformed",
                     1,
                     {},
                     {stream_}});
      return Status::Ok();
    }
    if (value.serial > check_.serial_max) {
      check_.report({"a message has serial " + std::to_string(value.serial.value()) +
                     ", but the last commit of the shard is " +
                     std::to_string(check_.serial_max.value())});
    }
    if (check_.deep && builder_ != nullptr) {
      TOPICDB_RETURN_IF_ERROR(CheckTopic(suffix, decoded));
    }
    const bool stop = counts_.messages % kReportEvery == 0 && check_.checked(kReportEvery);
    return stop ? Interrupted() : Status::Ok();
  }

  // Reports if the topic of the message belongs to another stream, or if an index entry of it is
  // missing.
  Status CheckTopic(std::string_view suffix, const DecodedSuffix& decoded) {
    std::string topic;
    builder_->Build(decoded.words, [&](std::string_view part) { topic.append(part); });
    if (check_.stream_of(topic) != stream_) {
      check_.report({"topic '" + topic +
                     "' is of another stream by the structures of its "
                     "generation"});
    }
    for (std::size_t i = 0; i < decoded.words.size() && i < kIndexedLevelsMax; ++i) {
      std::string key;
      AppendIndexPrefix(&key, stream_, i, decoded.words[i]);
      key.append(suffix);
      TOPICDB_ASSIGN_OR_RETURN(const bool found, Has(key));
      if (!found) check_.report({"a message of topic '" + topic + "' has no index entry"});
    }
    return Status::Ok();
  }

  Status CheckIndexEntry(std::uint16_t level, std::string_view rest) {
    DecodedSuffix decoded;
    const bool is_entry = rest.size() > sizeof(std::uint64_t) &&
                          DecodeSuffix(rest.substr(8), timestamp_bytes_, &decoded) &&
                          level <= decoded.words.size() &&
                          Hash64(decoded.words[level - 1]) == ReadBig<std::uint64_t>(rest);
    bool found = false;
    if (is_entry) {
      std::string key;
      AppendDataPrefix(&key, stream_);
      key.append(rest.substr(8));
      TOPICDB_ASSIGN_OR_RETURN(found, Has(key));
    }
    if (!found) {
      check_.report(
          {"an index entry of stream " + std::to_string(stream_.value()) + " has no message"});
    }
    return Status::Ok();
  }

  Result<bool> Has(const std::string& key) const {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status = source_.db->Get(Options(), source_.families.main, key, &value);
    // Run reports records that cannot be read, when it comes to them.
    if (status.ok() || status.IsCorruption()) return true;
    if (status.IsNotFound()) return false;
    return rocks::FromRocks(status, "reading an index entry");
  }

  const RocksSource source_;
  const std::uint32_t timestamp_bytes_;
  const SlabCheck& check_;
  CheckCounts counts_;
  StreamId stream_;
  std::optional<Structure> structure_;
  std::unique_ptr<TopicBuilder> builder_;
};

}  // namespace

Result<CheckCounts> CheckSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                              const SlabCheck& check) {
  return SlabChecker(source, timestamp_bytes, check).Run();
}

}  // namespace topicdb::skipstream
