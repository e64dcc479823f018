#include "store/view/shard_view.h"

#include <algorithm>
#include <atomic>
#include <iterator>

namespace topicdb {

SlabLists ListSlabs(SlabViews all) {
  std::vector<SlabView> current;
  std::copy_if(all->begin(), all->end(), std::back_inserter(current),
               [](const SlabView& view) { return !view.read_only; });
  std::vector<SlabView> ordered = *all;
  std::sort(ordered.begin(), ordered.end(), [](const SlabView& a, const SlabView& b) {
    return std::pair(a.slab->begun_at(), a.slab->id()) <
           std::pair(b.slab->begun_at(), b.slab->id());
  });
  return {std::move(all), std::make_shared<const std::vector<SlabView>>(std::move(current)),
          std::make_shared<const std::vector<SlabView>>(std::move(ordered))};
}

ShardView::ShardView(std::shared_ptr<const ShardView> whole, std::vector<SerialRange> hidden)
    : environment_(whole->environment_),
      db_(whole->db_),
      snapshot_(whole->snapshot_),
      slabs_(whole->slabs_),
      deletes_(whole->deletes_),
      jobs_(whole->jobs_),
      serial_(whole->serial_),
      deletes_version_(whole->deletes_version_),
      removals_version_(whole->removals_version_),
      hidden_(std::move(hidden)),
      whole_(std::move(whole)) {}

std::uint64_t NewRemovalsVersion() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

ShardView::~ShardView() {
  if (whole_ == nullptr && snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
}

std::vector<SlabView>::const_iterator PlaceOf(const SlabId& id,
                                              const std::vector<SlabView>& slabs) {
  return std::lower_bound(
      slabs.begin(), slabs.end(), id,
      [](const SlabView& view, const SlabId& at) { return view.slab->id() < at; });
}

const SlabView* ShardView::Find(const SlabId& id) const {
  const auto found = PlaceOf(id, slabs());
  const bool is_here = found != slabs().end() && found->slab->id() == id;
  return is_here ? &*found : nullptr;
}

std::string ShardView::ClassFilterOf(const SlabId& id) const {
  return environment_->rules()->FilterOf(id.retention_class);
}

std::string ShardView::Describe(const SlabId& id) const {
  return "class '" + ClassFilterOf(id) + "', generation " + std::to_string(id.generation.value()) +
         " of shard " + std::to_string(id.shard) + " of " + environment_->database_path;
}

}  // namespace topicdb
