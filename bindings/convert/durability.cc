#include "convert/durability.h"

#include <pybind11/pybind11.h>

namespace topicdb::python {

Durability ParseDurability(const std::string& text) {
  if (text == "none") return Durability::kNone;
  if (text == "os") return Durability::kOs;
  if (text == "disk") return Durability::kDisk;
  throw pybind11::value_error("durability: expected 'none', 'os' or 'disk', got '" + text + "'");
}

std::optional<Durability> ParseDurability(const std::optional<std::string>& text) {
  if (!text.has_value()) return std::nullopt;
  return ParseDurability(*text);
}

const char* NameOf(Durability durability) {
  switch (durability) {
    case Durability::kNone:
      return "none";
    case Durability::kOs:
      return "os";
    case Durability::kDisk:
      return "disk";
    case Durability::kQuorum:
      return "quorum";
  }
  return "unknown";
}

}  // namespace topicdb::python
