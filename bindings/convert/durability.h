// Converts levels of durability from and to the words that Python uses.
#pragma once

#include <optional>
#include <string>

#include "topicdb/options.h"

namespace topicdb::python {

// Throws ValueError if `text` is not such a word. REQUIRES (both ParseDurability): the GIL
Durability ParseDurability(const std::string& text);
std::optional<Durability> ParseDurability(const std::optional<std::string>& text);
const char* NameOf(Durability durability);

}  // namespace topicdb::python
