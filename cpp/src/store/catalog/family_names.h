// The names of the column families that hold the messages of slabs. DO NOT CHANGE THEM: they are on
// disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/types/iterator.h"

namespace topicdb {

// Return the names of the column families that hold a slab's messages. A slab with the layout
// skipstream has the first; one with the layout columnar has the other two.
std::string FamilyName(const SlabId& slab);
std::string BlocksFamilyName(const SlabId& slab);
std::string PagesFamilyName(const SlabId& slab);
// Returns the names of the families that a slab of this layout has, the main one first.
std::vector<std::string> FamilyNames(LayoutKind layout, const SlabId& slab);
// Sets class and generation of `slab` from a name made by one of these. Returns false for other
// names.
bool DecodeFamilyName(std::string_view name, SlabId* slab);
// Return whether a name that one of these made is that of the blocks of the layout columnar, or
// that of its pages.
bool IsBlocksFamily(std::string_view name);
bool IsPagesFamily(std::string_view name);

}  // namespace topicdb
