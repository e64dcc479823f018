#include "topicdb/status.h"

namespace topicdb {

Status Status::WithContext(const std::string& context) const {
  return ok() ? Status() : Status(code_, context + ": " + message_);
}

Status InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
Status TopicFault(std::string message) { return {Code::kTopic, std::move(message)}; }
Status SchemaFault(std::string message) { return {Code::kSchema, std::move(message)}; }
Status NotFound(std::string message) { return {Code::kNotFound, std::move(message)}; }
Status Locked(std::string message) { return {Code::kLocked, std::move(message)}; }
Status ReadOnly(std::string message) { return {Code::kReadOnly, std::move(message)}; }
Status Corruption(std::string message) { return {Code::kCorruption, std::move(message)}; }
Status StorageFault(std::string message) { return {Code::kStorage, std::move(message)}; }
Status Closed(std::string message) { return {Code::kClosed, std::move(message)}; }
Status Forked(std::string message) { return {Code::kForked, std::move(message)}; }
Status Interrupted() { return {Code::kInterrupted, "interrupted by the caller"}; }
Status Conflict(std::string message) { return {Code::kConflict, std::move(message)}; }
Status PreconditionFault(std::string message) { return {Code::kPrecondition, std::move(message)}; }
Status QuotaFault(std::string message) { return {Code::kQuota, std::move(message)}; }
Status ExistsFault(std::string message) { return {Code::kExists, std::move(message)}; }
Status MissingShardFault(std::string message) { return {Code::kMissingShard, std::move(message)}; }
Status NotLeader(std::string message) { return {Code::kNotLeader, std::move(message)}; }
Status UnknownOutcome(std::string message) { return {Code::kUnknownOutcome, std::move(message)}; }
Status Stale(std::string message) { return {Code::kStale, std::move(message)}; }
Status ClusterFault(std::string message) { return {Code::kCluster, std::move(message)}; }

}  // namespace topicdb
