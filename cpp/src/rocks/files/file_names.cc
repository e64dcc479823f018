#include "rocks/files/file_names.h"

#include <algorithm>
#include <array>

namespace topicdb::rocks {

namespace {

constexpr std::array<std::string_view, 4> kNames{"CURRENT", "IDENTITY", "LOCK", "LOG"};
// What these begin with is followed by a number.
constexpr std::array<std::string_view, 3> kNumbered{"LOG.old.", "MANIFEST-", "OPTIONS-"};
constexpr std::array<std::string_view, 5> kExtensions{".sst", ".log", ".blob", ".ldb", ".dbtmp"};
// A file that replaces another one, or is about to be removed, has the name of that one and this.
constexpr std::array<std::string_view, 4> kSuffixes{".tmp", ".dbtmp", ".empty", ".trash"};
// Rows that wait in a file, where the file system makes no files without names.
constexpr std::string_view kSpillBegin = "topicdb-";
constexpr std::string_view kSpillEnd = ".tmp";
constexpr std::size_t kSpillBytes = kSpillBegin.size() + 6 + kSpillEnd.size();

template <std::size_t kSize>
bool IsAnyOf(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsPlainName(std::string_view name) {
  if (IsAnyOf(kNames, name)) return true;
  for (const std::string_view begin : kNumbered) {
    if (name.starts_with(begin) && IsNumber(name.substr(begin.size()))) return true;
  }
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && IsNumber(name.substr(0, dot)) &&
         IsAnyOf(kExtensions, name.substr(dot));
}

}  // namespace

bool IsFileName(std::string_view name) {
  if (IsPlainName(name)) return true;
  for (const std::string_view suffix : kSuffixes) {
    const bool is_of_one = name.ends_with(suffix) && name.size() > suffix.size() &&
                           IsPlainName(name.substr(0, name.size() - suffix.size()));
    if (is_of_one) return true;
  }
  return name.size() == kSpillBytes && name.starts_with(kSpillBegin) && name.ends_with(kSpillEnd);
}

bool IsDirectoryName(std::string_view name) { return name == "archive" || name == "lost"; }

}  // namespace topicdb::rocks
