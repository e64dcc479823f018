#include "store/view/shard_environment.h"

#include <algorithm>

namespace topicdb {

namespace {

// Returns the limits for sealing. Small values of `seal_bytes` are for tests, which then have
// several pages in a block, and blocks that are merged.
SealLimits MakeSealLimits(std::size_t seal_bytes) {
  constexpr std::size_t kFreshBlocksMax = 1'024;
  constexpr std::size_t kBlockBytesMin = std::size_t{64} << 10;
  constexpr std::size_t kPageBytesMin = 64;
  return {seal_bytes, kFreshBlocksMax,
          std::clamp(seal_bytes, kBlockBytesMin, SealLimits::kBlockBytesMax),
          std::clamp(seal_bytes / 256, kPageBytesMin, SealLimits::kPageBytesMax)};
}

}  // namespace

std::string ShardEnvironment::NameOfShard(std::uint32_t index) const {
  return "shard " + std::to_string(index) + " of " + database_path;
}

LayoutKind ShardEnvironment::LayoutOfNew(const SlabId& id, std::optional<LayoutKind> before) const {
  if (IsReserved(id)) return LayoutKind::kSkipstream;
  const auto now = rules();
  const RetentionRule* const rule = now->Find(id.retention_class);
  if (rule != nullptr && rule->limits.layout.has_value()) return *rule->limits.layout;
  return before.value_or(schema.layout);
}

meta::SlabRecord ShardEnvironment::NewSlabRecord(const SlabId& id, LayoutKind layout,
                                                 NotedTime now) const {
  meta::SlabRecord record;
  record.layout = layout;
  record.timestamp_bytes = IsReserved(id) ? 0 : static_cast<std::uint8_t>(schema.timestamp_bytes);
  record.created_at = now;
  return record;
}

std::shared_ptr<ShardEnvironment> MakeShardEnvironment(const std::string& path,
                                                       const FoundDatabase& found,
                                                       const OpenOptions& options) {
  const Schema& schema = found.descriptor.schema;
  auto environment = std::make_shared<ShardEnvironment>();
  environment->database_path = path;
  environment->directory = path;
  environment->database = found.descriptor.id;
  environment->schema = schema;
  environment->retention = std::make_shared<RetentionState>(found.rules);
  environment->resources =
      rocks::MakeSharedResources(options.cache_bytes, options.write_buffer_bytes);
  environment->commit = options.commit;
  environment->read_only = options.read_only;
  environment->seal_limits = MakeSealLimits(options.seal_bytes);
  environment->learning = {schema.thresholds, options.adaptive_structures, options.streams_max};
  return environment;
}

}  // namespace topicdb
