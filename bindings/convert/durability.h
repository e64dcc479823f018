// Converts levels of durability from and to the words that Python uses.
#pragma once

#include <optional>
#include <string>

#include "topicdb/options.h"

namespace topicdb::python {

// Return the level of a word: "none", "os" or "disk". Throw ValueError if `text` is another word.
// REQUIRES (both ParseDurability): the GIL
Durability ParseDurability(const std::string& text);
std::optional<Durability> ParseDurability(const std::optional<std::string>& text);
// Returns the word for a level.
const char* NameOf(Durability durability);

}  // namespace topicdb::python
