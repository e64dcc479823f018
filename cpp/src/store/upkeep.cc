#include "topicdb/database/upkeep.h"

#include <utility>

#include "store/database/database_impl.h"
#include "store/database/structure_usage.h"

namespace topicdb {

Upkeep::Upkeep(std::shared_ptr<DatabaseImpl> impl) : impl_(std::move(impl)) {}
Upkeep::~Upkeep() = default;

Result<std::vector<RetentionClass>> Upkeep::Retention() const {
  TOPICDB_ENTER(impl_);
  return impl_->environment().rules()->classes();
}

Result<Maintenance> Upkeep::SetRetention(const std::vector<RetentionClass>& classes, bool dry_run) {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().SetRetention(classes, dry_run);
}

Result<QuotaState> Upkeep::Quota() const {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().Quota();
}

Result<std::vector<DroppedSlab>> Upkeep::SetQuota(std::optional<std::uint64_t> quota_bytes,
                                                  std::optional<double> quota_trim, bool dry_run) {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().SetQuota(quota_bytes, quota_trim, dry_run);
}

Status Upkeep::Rotate(const std::optional<std::string>& retention_class, bool resets_clock,
                      std::optional<LayoutKind> layout) {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().Rotate(retention_class, resets_clock, layout);
}

Result<std::vector<SlabInfo>> Upkeep::Slabs() const {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().Slabs();
}

Result<std::vector<SlabUsage>> Upkeep::Usage() const {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().Usage();
}

Result<std::vector<StructureUsage>> Upkeep::UsageByStructure(
    const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  return topicdb::UsageByStructure(impl_->shards().Moments(), interrupted);
}

Status Upkeep::DropSlab(std::uint32_t shard, const std::string& retention_class,
                        Generation generation) {
  TOPICDB_ENTER(impl_);
  return impl_->upkeep().DropSlab(shard, retention_class, generation);
}

Result<std::vector<SlabInfo>> Upkeep::Expire(std::optional<WallTime> as_if,
                                             const InterruptCheck& interrupted) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  return impl_->upkeep().Expire(as_if, interrupted);
}

Result<Maintenance> Upkeep::Maintain(std::optional<WallTime> as_if,
                                     const InterruptCheck& interrupted) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  return impl_->upkeep().Maintain(as_if, interrupted);
}

}  // namespace topicdb
