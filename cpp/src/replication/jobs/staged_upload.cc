#include "replication/jobs/staged_upload.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/thread/parallel.h"
#include "rocks/pages_file.h"
#include "store/job/staged_records.h"

namespace topicdb::replication {

namespace {

// A step has about this many bytes, so that it is one entry of the log.
constexpr std::size_t kStepBytes = std::size_t{900} << 10;
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::chrono::milliseconds kStageAgainAfter(20);

// Collects records of a job for one shard, and puts them there in steps. Used by one thread.
class StepWriter {
 public:
  StepWriter(const SiteShards& shards, std::uint32_t shard, const std::string& job,
             std::chrono::milliseconds patience)
      : shards_(shards), shard_(shard), patience_(patience) {
    step_.job = job;
  }

  Status Put(std::string rest, std::string value) {
    bytes_ += rest.size() + value.size();
    step_.records.emplace_back(std::move(rest), std::move(value));
    return bytes_ < kStepBytes ? Status::Ok() : Finish();
  }
  // Puts what was collected.
  Status Finish() {
    if (step_.records.empty()) return Status::Ok();
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    const Status put = StageAt(shards_, shard_, step_, deadline);
    step_.records.clear();
    bytes_ = 0;
    return put;
  }

 private:
  const SiteShards& shards_;
  const std::uint32_t shard_;
  const std::chrono::milliseconds patience_;
  StagingStep step_;
  std::size_t bytes_ = 0;
};

Status UploadPart(const StagedPart& part, const std::string& directory, const std::string& file,
                  StepWriter* writer) {
  TOPICDB_RETURN_IF_ERROR(CheckPagesFile(directory, part));
  const StagedPlaceName name{file, part.retention_class};
  TOPICDB_ASSIGN_OR_RETURN(const auto pages,
                           rocks::PagesFileReader::Open(directory + "/" + part.pages_file));
  TOPICDB_RETURN_IF_ERROR(pages->ForEach([&](std::string_view key, std::string_view page) {
    return writer->Put(StagedPageRest(name, key), std::string(page));
  }));
  std::uint32_t piece = 0;
  for (std::size_t at = 0; at < part.blocks.size(); at += kPieceBytes) {
    TOPICDB_RETURN_IF_ERROR(
        writer->Put(StagedBlocksRest(name, piece++), part.blocks.substr(at, kPieceBytes)));
  }
  const StagedPartRecord record{part.messages, part.bytes, part.block_count, part.blocks.size()};
  // Behind everything else of the part, in a step of its own.
  TOPICDB_RETURN_IF_ERROR(writer->Finish());
  TOPICDB_RETURN_IF_ERROR(writer->Put(StagedPartRest(name), Encode(record)));
  return writer->Finish();
}

}  // namespace

Status StageAt(const SiteShards& shards, std::uint32_t shard, const StagingStep& step,
               std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const std::shared_ptr<Replica> replica = shards.Find(shard);
    if (replica == nullptr) return Closed("the site closes its shards");
    Status done = replica->shard()->Stage(step);
    const bool is_sure = done.code() != Code::kUnknownOutcome && done.code() != Code::kNotLeader;
    if (is_sure || std::chrono::steady_clock::now() >= deadline) return done;
    std::this_thread::sleep_for(kStageAgainAfter);
  }
}

Status UploadStaged(const SiteShards& shards, const std::string& job, const std::string& directory,
                    const std::string& name, const StagedFile& file,
                    std::chrono::milliseconds patience) {
  StepWriter first(shards, 0, job, patience);
  TOPICDB_RETURN_IF_ERROR(
      first.Put(StagedBeginRest(name), EncodeStagedBegin(MicrosecondsOf(ReadWallClock()))));
  TOPICDB_RETURN_IF_ERROR(first.Finish());
  std::map<std::uint32_t, std::vector<const StagedPart*>> by_shard;
  StagedFileRecord record;
  for (const StagedPart& part : file.parts) {
    by_shard[part.shard].push_back(&part);
    record.parts.push_back({part.shard, part.retention_class, part.messages, part.bytes});
  }
  const std::vector<std::pair<std::uint32_t, std::vector<const StagedPart*>>> all(by_shard.begin(),
                                                                                  by_shard.end());
  const Status uploaded = RunInParallel(all.size(), [&](std::size_t i) {
    StepWriter writer(shards, all[i].first, job, patience);
    for (const StagedPart* part : all[i].second) {
      TOPICDB_RETURN_IF_ERROR(UploadPart(*part, directory, name, &writer));
    }
    return Status::Ok();
  });
  TOPICDB_RETURN_IF_ERROR(uploaded);
  TOPICDB_RETURN_IF_ERROR(first.Put(StagedFileRest(name), Encode(record)));
  return first.Finish();
}

}  // namespace topicdb::replication
