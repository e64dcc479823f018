// The column families that slabs are given.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include "rocks/rocks_options.h"
#include "store/slab/slab.h"

namespace topicdb {

// What is in a column family of this name.
rocks::FamilyUse FamilyUseOf(std::string_view name);

// Makes column families, and keeps those that were made ahead. RocksDB goes through all families in
// each call that makes or drops some, so where there are many, a call makes those of several slabs.
// No record speaks of what is kept here: after a crash, opening finds it and drops it.
//
// Owned by a shard, which guards it. What it keeps must be gone before the database closes.
class FamilyStock {
 public:
  explicit FamilyStock(const rocks::SharedResources& resources) : resources_(resources) {}

  // Adds the families of these names to `families`. If it has to make any, it makes those of
  // `ahead` in the same call. After an error some may have been made without a handle.
  rocksdb::Status Take(rocksdb::DB* db, const std::vector<std::string>& names,
                       const std::vector<std::string>& ahead, FamiliesByName* families);
  // Takes families that nobody has use for.
  void Put(FamiliesByName families) { spare_.merge(families); }
  // Drops all that it keeps.
  rocksdb::Status Drop(rocksdb::DB* db);
  // Lets go of it, and leaves it in the database.
  void Clear() { spare_.clear(); }

 private:
  const rocks::SharedResources& resources_;
  FamiliesByName spare_;
};

}  // namespace topicdb
