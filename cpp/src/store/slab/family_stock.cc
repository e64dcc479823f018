#include "store/slab/family_stock.h"

#include "rocks/rocks_compat.h"
#include "store/catalog/family_names.h"

namespace topicdb {

rocks::FamilyUse FamilyUseOf(std::string_view name) {
  if (IsBlocksFamily(name)) return rocks::FamilyUse::kBlocks;
  return IsPagesFamily(name) ? rocks::FamilyUse::kPages : rocks::FamilyUse::kKeys;
}

rocksdb::Status FamilyStock::Take(rocksdb::DB* db, const std::vector<std::string>& names,
                                  const std::vector<std::string>& ahead, FamiliesByName* families) {
  std::vector<rocksdb::ColumnFamilyDescriptor> missing;
  const auto add_missing = [&](const std::vector<std::string>& wanted) {
    for (const std::string& name : wanted) {
      if (spare_.contains(name)) continue;
      missing.emplace_back(name, rocks::FamilyOptions(resources_, FamilyUseOf(name)));
    }
  };
  add_missing(names);
  if (!missing.empty()) add_missing(ahead);
  rocksdb::Status status;
  if (!missing.empty()) {
    rocks::FamilyHandles handles;
    status = db->CreateColumnFamilies(missing, &handles);
    for (rocksdb::ColumnFamilyHandle* handle : handles) {  // also of a call that failed half-way
      spare_[handle->GetName()] = std::make_shared<FamilyHandle>(db, handle);
    }
  }
  for (const std::string& name : names) families->insert(spare_.extract(name));
  return status;
}

rocks::FamilyHandles FamilyStock::handles() const {
  rocks::FamilyHandles handles;
  for (const auto& [name, family] : spare_) handles.push_back(family->get());
  return handles;
}

}  // namespace topicdb
