#include "rocks/log/commit_link.h"

#include "base/bytes/coding.h"

namespace topicdb::rocks {

namespace {

constexpr std::string_view kLinkMagic = "TDBL";
constexpr std::size_t kLinkBytes = 16;
// How RocksDB begins log data at the end of a batch (db/write_batch.cc): the tag of a blob, and its
// length.
constexpr std::string_view kLinkHead = "\x03\x10";

}  // namespace

std::string Encode(const CommitLink& link) {
  std::string bytes;
  AppendLittle(&bytes, link.number);
  AppendLittle(&bytes, link.session);
  bytes += kLinkMagic;
  return bytes;
}

std::optional<CommitLink> LinkOf(std::string_view record) {
  if (record.size() < kLinkHead.size() + kLinkBytes || !record.ends_with(kLinkMagic)) return {};
  record.remove_prefix(record.size() - kLinkHead.size() - kLinkBytes);
  if (!record.starts_with(kLinkHead)) return {};
  Decoder decoder(record.substr(kLinkHead.size()));
  CommitLink link;
  link.number = decoder.Little<std::uint64_t>();
  link.session = decoder.Little<std::uint32_t>();
  return link;
}

}  // namespace topicdb::rocks
