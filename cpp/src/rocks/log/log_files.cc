#include "rocks/log/log_files.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/bytes/coding.h"
#include "base/file/files.h"

namespace topicdb::rocks {

namespace {
constexpr std::size_t kNameBytesMax = 4'096;
}  // namespace

std::string ManifestOf(const std::string& directory) {
  const Result<std::string> current = ReadFile(directory + "/CURRENT", kNameBytesMax);
  return current.ok() ? directory + "/" + current->substr(0, current->find('\n')) : "";
}

EditNumbers NumbersOf(std::string_view edit) {
  constexpr std::uint64_t kNextFileNumber = 3;
  constexpr std::uint64_t kMinLogNumberToKeep = 10;
  // The tags that a single number follows: of logs, files, commits, families, and edits that belong
  // together. In an edit they come before all others.
  constexpr std::array<std::uint64_t, 8> kNumbers{
      2, kNextFileNumber, 4, 9, kMinLogNumberToKeep, 200, 203, 300};
  Decoder decoder(edit);
  EditNumbers numbers;
  while (!decoder.Finished()) {
    const std::uint64_t tag = decoder.Varint();
    const std::uint64_t number = decoder.Varint();
    const bool is_number = std::find(kNumbers.begin(), kNumbers.end(), tag) != kNumbers.end();
    if (!decoder.ok() || !is_number) {
      numbers.logs_needed_from = 0;
      break;
    }
    if (tag == kMinLogNumberToKeep) numbers.logs_needed_from = number;
    if (tag == kNextFileNumber) numbers.next_file = number;
  }
  return numbers;
}

Result<std::vector<std::string>> WriteAheadLogs(const std::string& directory,
                                                std::uint64_t needed_from) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    std::uint64_t number = 0;
    const bool is_numbered =
        std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc();
    if (!name.ends_with(".log") || (is_numbered && number < needed_from)) continue;
    paths.push_back(directory + "/" + name);
  }
  // Sorts by numbers, which have zeros before them up to six digits.
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return paths;
}

}  // namespace topicdb::rocks
