#include "store/catalog/family_names.h"

#include <charconv>
#include <cstdint>
#include <system_error>

namespace topicdb {

namespace {

constexpr std::string_view kBlocksSuffix = ".blocks";
constexpr std::string_view kPagesSuffix = ".pages";

}  // namespace

std::string FamilyName(const SlabId& slab) {
  return "class" + std::to_string(slab.retention_class.value()) + ".generation" +
         std::to_string(slab.generation.value());
}

std::string BlocksFamilyName(const SlabId& slab) {
  return FamilyName(slab) + std::string(kBlocksSuffix);
}

std::string PagesFamilyName(const SlabId& slab) {
  return FamilyName(slab) + std::string(kPagesSuffix);
}

std::vector<std::string> FamilyNames(LayoutKind layout, const SlabId& slab) {
  if (layout != LayoutKind::kColumnar) return {FamilyName(slab)};
  return {BlocksFamilyName(slab), PagesFamilyName(slab)};
}

bool DecodeFamilyName(std::string_view name, SlabId* slab) {
  for (const std::string_view suffix : {kBlocksSuffix, kPagesSuffix}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  const auto take = [&](std::string_view text, std::uint32_t* number) {
    if (!name.starts_with(text)) return false;
    name.remove_prefix(text.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *number);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return error == std::errc();
  };
  std::uint32_t retention_class = 0;
  std::uint32_t generation = 0;
  if (!take("class", &retention_class) || !take(".generation", &generation)) return false;
  slab->retention_class = RetentionClassId{retention_class};
  slab->generation = Generation{generation};
  return name.empty();
}

bool IsBlocksFamily(std::string_view name) { return name.ends_with(kBlocksSuffix); }

bool IsPagesFamily(std::string_view name) { return name.ends_with(kPagesSuffix); }

}  // namespace topicdb
