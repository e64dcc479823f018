// Makes the column families of slabs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/db.h>

#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "store/slab/slab.h"

namespace topicdb {

// Returns what a column family of this name is used for.
rocks::FamilyUse FamilyUseOf(std::string_view name);

// Makes column families, and keeps those that were made ahead. Each call that makes or drops some
// has RocksDB go through all families. So where there are many, one call makes those of several
// slabs. No record names the families in the stock: after a crash, opening finds and drops them.
//
// The SlabMaker of a shard owns it. Not thread-safe: the shard's commit mutex guards it. The stock
// must be empty before RocksDB closes.
class FamilyStock {
 public:
  explicit FamilyStock(const rocks::SharedResources& resources) : resources_(resources) {}

  // Adds the families of these names to `families`. If it has to make any, it makes those of
  // `ahead` in the same call. After an error, some families may exist without a handle.
  rocksdb::Status Take(rocksdb::DB* db, const std::vector<std::string>& names,
                       const std::vector<std::string>& ahead, FamiliesByName* families);
  // Adds families that nobody uses to the stock.
  void Put(FamiliesByName families) { spare_.merge(families); }
  // Returns the families in the stock.
  rocks::FamilyHandles handles() const;
  // Empties the stock, and leaves its families in RocksDB.
  void Clear() { spare_.clear(); }
  // Empties the stock, and returns its families.
  FamiliesByName TakeAll() { return std::exchange(spare_, {}); }

 private:
  const rocks::SharedResources& resources_;
  FamiliesByName spare_;
};

}  // namespace topicdb
