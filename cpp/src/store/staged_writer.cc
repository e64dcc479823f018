// Stages messages: puts them in blocks by shard and class, and writes the blocks that are full.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "base/file/files.h"
#include "base/thread/fork_guard.h"
#include "base/thread/mutex.h"
#include "commit/shard_choice.h"
#include "layout/layout.h"
#include "rocks/pages_file.h"
#include "store/catalog/database_hold.h"
#include "store/database/create.h"
#include "store/database/database_impl.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"
#include "store/slab/topic_cache.h"
#include "topicdb/job.h"

namespace topicdb {

namespace {

constexpr std::size_t kTopicCacheBytes = std::size_t{32} << 20;
// Pages of one part are numbered from a random number that ends with this many zero bits.
constexpr unsigned kPartBits = 16;

std::uint64_t Random() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string Hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; number >>= 4) text[i] = kDigits[number & 15];
  return text;
}

}  // namespace

class StagedWriter::Impl {
 public:
  Impl(std::string path, std::string directory, FoundDatabase database,
       std::unique_ptr<SharedFileLock> hold, const StageOptions& options)
      : path_(std::move(path)),
        hold_(std::move(hold)),
        directory_(std::move(directory)),
        descriptor_(std::move(database.descriptor)),
        rules_(std::move(database.rules)),
        options_(options),
        attempt_(Hex(Random())),
        learned_({descriptor_.schema.thresholds, true, OpenOptions().streams_max}),
        known_(descriptor_.schema.shard_by == ShardBy::kTopic ? 1U : descriptor_.schema.shards) {
    if (!learned_.Restore({kRootNode, kNoNode, NodeKind::kWord, false, {}}).ok()) std::abort();
    edit_.emplace(learned_);
    for (const std::string& hint : descriptor_.schema.structures) {
      edit_->SeedHint(*Filter::Parse(hint));  // was checked when the database was made
    }
  }

  ~Impl() {
    if (finished_) return;
    parts_.clear();
    for (const std::string& file : files_) unlink((directory_ + "/" + file).c_str());
    // Removes the directory unless other attempts have files there. This attempt may have made it
    // after the job was aborted.
    rmdir(directory_.c_str());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool forked() const { return fork_guard_.Forked(); }

  Status Append(std::span<const MessageView> messages, const MessageKeys& keys)
      TOPICDB_EXCLUDES(mutex_) {
    TOPICDB_RETURN_IF_ERROR(CheckNotForked());
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(broken_);
    TOPICDB_RETURN_IF_ERROR(CheckKeys(keys, messages.size(), descriptor_.schema, path_));
    const ShardChoice choice(descriptor_.schema, keys);
    std::set<std::size_t> malformed;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Status status =
          CheckMessage(messages[i], descriptor_.schema.timestamp_bytes, TopicUse::kPublic);
      if (status.ok() && keys.each.has_value()) status = CheckKey(keys.Of(i));
      if (status.ok()) continue;
      if (!options_.drop_malformed) {
        return status.WithContext("row " + std::to_string(i));
      }
      malformed.insert(i);
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (malformed.contains(i)) continue;
      broken_ = Add(messages[i], choice, i);
      TOPICDB_RETURN_IF_ERROR(broken_);
    }
    task_.malformed += malformed.size();
    return Status::Ok();
  }

  Result<StagedTask> Finish() TOPICDB_EXCLUDES(mutex_) {
    TOPICDB_RETURN_IF_ERROR(CheckNotForked());
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(broken_);
    broken_ = InvalidArgument("the staged writer is finished");
    for (auto& [key, part] : parts_) {
      TOPICDB_RETURN_IF_ERROR(WriteBlock(&part.given, &part));
      TOPICDB_RETURN_IF_ERROR(WriteBlock(&part.assigned, &part));
    }
    StagedFile file{descriptor_.id, {}};
    for (auto& [key, part] : parts_) {
      if (part.pages == nullptr) continue;
      TOPICDB_RETURN_IF_ERROR(part.pages->Finish());
      part.staged.pages_file_bytes = part.pages->bytes();
      file.parts.push_back(std::move(part.staged));
    }
    if (!file.parts.empty()) {
      task_.file = attempt_ + ".staged";
      files_.push_back(task_.file);
      TOPICDB_RETURN_IF_ERROR(
          WriteFileAtomically(directory_ + "/" + task_.file, EncodeStagedFile(file)));
    }
    finished_ = true;
    return task_;
  }

 private:
  // Messages on their way into one block.
  struct Buffer {
    StagedRows rows;
    std::uint64_t number = 0;  // of this block, for the marks of topics
    std::int64_t next_time = 0;
  };
  struct Part {
    StagedPart staged;
    std::unique_ptr<rocks::PagesFile> pages;
    std::uint64_t next_pages = 0;
    Buffer given;
    Buffer assigned;
  };
  // Where the messages of a topic go.
  struct Route {
    Part* part;
    TopicMark given;
    TopicMark assigned;
  };
  // Topics that were seen before, and their routes by the indexes of the topics.
  struct KnownTopics {
    explicit KnownTopics(std::size_t bytes_max) : topics(bytes_max) {}
    TopicCache topics;
    std::vector<Route> routes;
  };

  // Callers must check this before they take the mutex: in a forked child it may be locked for
  // ever.
  Status CheckNotForked() const {
    if (!forked()) return Status::Ok();
    return Forked("this staged writer was opened before this process was forked: open one here");
  }

  // Adds message number `row` of an append.
  Status Add(const MessageView& message, const ShardChoice& choice, std::size_t row) {
    std::optional<std::uint32_t> shard;  // else it is that of the topic
    if (known_.size() > 1) shard = choice.ShardOf(row, message.topic);
    KnownTopics& known = KnownIn(shard.value_or(0));
    const std::uint64_t hash = TopicCache::HashOf(message.topic);
    const TopicCache::Topic* topic = known.topics.Find(message.topic, hash);
    if (topic == nullptr) topic = AddTopic(message.topic, hash, shard, &known);
    Route& route = known.routes[known.topics.IndexOf(*topic)];
    const bool has_time = descriptor_.schema.timestamp_bytes != 0;
    const bool assigns = has_time && message.timestamp == kAssignTimestamp;
    Buffer& buffer = assigns ? route.part->assigned : route.part->given;
    TopicMark& mark = assigns ? route.assigned : route.given;
    StagedRows& rows = buffer.rows;
    // The block becomes a sealed block as it is, so it has the same limits.
    const bool is_full = rows.rows.size() >= SealLimits::kBlockRowsMax ||
                         rows.bytes() + message.value.size() > SealLimits::kBlockBytesMax;
    if (is_full) TOPICDB_RETURN_IF_ERROR(WriteBlock(&buffer, route.part));
    if (buffer.number == 0) buffer.number = ++buffers_;
    if (mark.page != buffer.number) {
      mark = {buffer.number, static_cast<std::uint32_t>(rows.topics.size())};
      rows.topics.push_back({topic->stream.value(), std::string(message.topic)});
    }
    rows.rows.push_back({mark.topic, static_cast<std::uint32_t>(rows.values.size()),
                         static_cast<std::uint32_t>(message.value.size()),
                         assigns    ? buffer.next_time++
                         : has_time ? message.timestamp
                                    : 0});
    rows.values.append(message.value);
    rows.topic_bytes += message.topic.size();
    rows.assigns_times = assigns;
    ++task_.messages;
    task_.bytes += message.topic.size() + message.value.size();
    memory_ += message.topic.size() + message.value.size() + sizeof(StagedRows::Row);
    return memory_ < options_.memory_bytes_max ? Status::Ok() : WriteLargest();
  }

  // Returns the topics that are known in item `index` of known_, and makes the item if need be.
  KnownTopics& KnownIn(std::uint32_t index) {
    std::unique_ptr<KnownTopics>& known = known_[index];
    if (known == nullptr) known = std::make_unique<KnownTopics>(kTopicCacheBytes / known_.size());
    return *known;
  }

  // Adds a topic to `known`. Its messages go to `shard`, or to the shard of the topic if that is
  // absent. `stream` of the cached topic is its stream in learned_ and edit_, by which StageBlock
  // groups topics.
  const TopicCache::Topic* AddTopic(std::string_view text, std::uint64_t hash,
                                    std::optional<std::uint32_t> shard, KnownTopics* known) {
    const std::uint32_t index = shard.value_or(ShardOfTopic(text, descriptor_.schema.shards));
    const RetentionClassId retention_class = rules_.ClassOf(text);
    Part& part = parts_[{index, retention_class}];
    part.staged.shard = index;
    part.staged.retention_class = retention_class;
    const StreamId group = edit_->Resolve(text, &varying_);
    const TopicCache::Topic* topic = known->topics.Add(text, hash, retention_class, group);
    // The routes go, too, if the cache was full and has forgotten all topics.
    known->routes.resize(known->topics.IndexOf(*topic));
    known->routes.push_back({&part, {}, {}});
    return topic;
  }

  Status WriteLargest() {
    Part* largest = nullptr;
    Buffer* chosen = nullptr;
    for (auto& [key, part] : parts_) {
      for (Buffer* buffer : {&part.given, &part.assigned}) {
        if (chosen != nullptr && buffer->rows.bytes() <= chosen->rows.bytes()) continue;
        largest = &part;
        chosen = buffer;
      }
    }
    return WriteBlock(chosen, largest);
  }

  Status WriteBlock(Buffer* buffer, Part* part) {
    if (buffer->rows.rows.empty()) return Status::Ok();
    if (part->pages == nullptr) {
      part->staged.pages_file = attempt_ + "-" + std::to_string(part->staged.shard) + "-" +
                                std::to_string(part->staged.retention_class.value()) + ".pages";
      files_.push_back(part->staged.pages_file);
      TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));  // another attempt may have removed it
      TOPICDB_ASSIGN_OR_RETURN(
          part->pages, rocks::PagesFile::Create(directory_ + "/" + part->staged.pages_file));
      part->next_pages = kStagedPagesMin | (Random() << kPartBits);
    }
    StagedBlock block;
    const KeySink put = [&](std::string_view key, std::string_view page) {
      return part->pages->Put(key, page);
    };
    TOPICDB_RETURN_IF_ERROR(
        StageBlock(buffer->rows, part->next_pages++, SealLimits::kPageBytesMax, put, &block));
    AppendStagedBlock(block, &part->staged);
    memory_ -= std::min(memory_,
                        buffer->rows.bytes() + buffer->rows.rows.size() * sizeof(StagedRows::Row));
    buffer->rows.topics.clear();
    buffer->rows.rows.clear();
    buffer->rows.values.clear();
    buffer->rows.topic_bytes = 0;
    buffer->number = 0;
    buffer->next_time = 0;
    return Status::Ok();
  }

  const std::string path_;                      // of the database
  const std::unique_ptr<SharedFileLock> hold_;  // of the database; may be null
  const std::string directory_;
  const Descriptor descriptor_;
  const RetentionRules rules_;
  const StageOptions options_;
  const std::string attempt_;
  const ForkGuard fork_guard_;
  Mutex mutex_;            // guards all below
  StructureTrie learned_;  // empty: what is learned is in the edit
  std::optional<StructureEdit> edit_;
  // One item; by shard if the database shards by key, where a topic has a route in each shard. An
  // item is null until it is needed.
  std::vector<std::unique_ptr<KnownTopics>> known_;
  std::map<std::pair<std::uint32_t, RetentionClassId>, Part> parts_;  // by shard and class
  std::vector<std::string> files_;                                    // that were made
  std::vector<std::string_view> varying_;
  std::uint64_t buffers_ = 0;
  std::size_t memory_ = 0;
  StagedTask task_;
  Status broken_;
  bool finished_ = false;
};

StagedWriter::StagedWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StagedWriter::~StagedWriter() {
  // In a forked child the files belong to the parent, so the child must not remove them.
  if (impl_->forked()) new std::unique_ptr<Impl>(std::move(impl_));
}

Result<std::unique_ptr<StagedWriter>> StagedWriter::Open(const std::string& path,
                                                         const std::string& job,
                                                         const StageOptions& options) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(job));
  TOPICDB_ASSIGN_OR_RETURN(FoundDatabase found, FindDatabase(path));
  TOPICDB_ASSIGN_OR_RETURN(auto hold, HoldDatabase(path, HolderKind::kWriter));
  TOPICDB_ASSIGN_OR_RETURN(std::string directory, MakeJobDirectory(path, job));
  auto impl = std::make_unique<Impl>(path, std::move(directory), std::move(found), std::move(hold),
                                     options);
  return std::unique_ptr<StagedWriter>(new StagedWriter(std::move(impl)));
}

Status StagedWriter::Append(std::span<const MessageView> messages, const MessageKeys& keys) {
  return impl_->Append(messages, keys);
}

Result<StagedTask> StagedWriter::Finish() { return impl_->Finish(); }

}  // namespace topicdb
