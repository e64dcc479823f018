#include "rocks/log_check.h"

#include <cstdint>
#include <fstream>
#include <string_view>

#include "base/coding.h"
#include "base/files.h"

namespace topicdb::rocks {

namespace {

// Of RocksDB's db/log_format.h: blocks of records, each of checksum, length, type and payload.
constexpr std::size_t kBlockBytes = 32'768;
constexpr std::size_t kHeaderBytes = 7;
constexpr std::size_t kLengthAt = 4;
constexpr std::size_t kTypeAt = 6;

bool IsOfRecycledLog(unsigned type) { return (type >= 5 && type <= 8) || type == 11; }

bool IsLog(std::string_view name) {
  return name.starts_with("MANIFEST-") || name.ends_with(".log");
}

// Where the first record of a recycled log begins in a block, or npos.
std::size_t FindRecycled(std::string_view block) {
  std::size_t begin = 0;
  while (block.size() - begin >= kHeaderBytes) {
    Decoder header(block.substr(begin + kLengthAt));
    const std::size_t length = header.Little<std::uint16_t>();
    if (IsOfRecycledLog(static_cast<std::uint8_t>(block[begin + kTypeAt]))) return begin;
    if (length > block.size() - begin - kHeaderBytes) break;  // torn, or damaged otherwise
    begin += kHeaderBytes + length;
  }
  return std::string_view::npos;
}

Status CheckLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string block(kBlockBytes, '\0');
  for (std::size_t offset = 0; file.good(); offset += kBlockBytes) {
    file.read(block.data(), kBlockBytes);
    const auto count = static_cast<std::size_t>(file.gcount());
    const std::size_t found = FindRecycled(std::string_view(block).substr(0, count));
    if (found != std::string_view::npos) {
      return Corruption(path + " is damaged at byte " + std::to_string(offset + found) +
                        ": a record of a type that is never written");
    }
  }
  return Status::Ok();
}

}  // namespace

Status CheckLogs(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (IsLog(name)) TOPICDB_RETURN_IF_ERROR(CheckLog(directory + "/" + name));
  }
  return Status::Ok();
}

}  // namespace topicdb::rocks
