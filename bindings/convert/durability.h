// Levels of durability as Python spells them.
#pragma once

#include <optional>
#include <string>

#include "topicdb/options.h"

namespace topicdb::python {

// ValueError for another word. REQUIRES: the GIL
Durability ParseDurability(const std::string& text);
std::optional<Durability> ParseDurability(const std::optional<std::string>& text);
const char* NameOf(Durability durability);

}  // namespace topicdb::python
