#include "topicdb/types/iterator.h"

#include <algorithm>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"

// docs/format.md, "Streams and iterators".
namespace topicdb {

namespace {

// DO NOT CHANGE THESE VALUES: users store these bytes. Zero is no version.
constexpr std::uint8_t kStreamVersion = 0x11;
constexpr std::uint8_t kIteratorVersion = 0x21;

std::string Begin(std::uint8_t version, const DatabaseId& database, const SlabId& slab,
                  StreamId stream) {
  std::string bytes(1, static_cast<char>(version));
  bytes.append(database.begin(), database.end());
  AppendVarint(&bytes, slab.shard);
  AppendVarint(&bytes, slab.retention_class.value());
  AppendVarint(&bytes, slab.generation.value());
  AppendVarint(&bytes, stream.value());
  return bytes;
}

// Returns the fields that follow what Begin has written. Returns an empty view if the bytes are
// damaged or encode something else.
std::string_view FieldsOf(std::string_view bytes, std::uint8_t version) {
  return OpenRecord(bytes, std::string(1, static_cast<char>(version))).value_or(std::string_view());
}

std::uint32_t ReadU32(Decoder* decoder, bool* ok) {
  const std::uint64_t value = decoder->Varint();
  if (value > 0xffffffff) *ok = false;
  return static_cast<std::uint32_t>(value);
}

bool ReadPlace(Decoder* decoder, DatabaseId* database, SlabId* slab, StreamId* stream) {
  const std::string_view id = decoder->Bytes(database->size());
  std::copy(id.begin(), id.end(), database->begin());
  bool ok = true;
  slab->shard = ReadU32(decoder, &ok);
  slab->retention_class = RetentionClassId{ReadU32(decoder, &ok)};
  slab->generation = Generation{ReadU32(decoder, &ok)};
  *stream = StreamId{ReadU32(decoder, &ok)};
  return ok && decoder->ok() && slab->generation != Generation{} && *stream != kNoStream;
}

bool ReadPosition(Decoder* decoder, Position* position) {
  const auto kind = decoder->Little<std::uint8_t>();
  position->kind = static_cast<Position::Kind>(kind);
  const std::uint64_t timestamp = decoder->Varint();
  position->timestamp = static_cast<std::int64_t>(timestamp);
  bool ok = position->timestamp >= 0;
  switch (position->kind) {
    case Position::Kind::kAtTime:
      break;
    case Position::Kind::kAfterMessage:
      position->serial = Serial{decoder->Varint()};
      position->index = ReadU32(decoder, &ok);
      break;
    case Position::Kind::kAfterKey:
      position->words = decoder->Prefixed();
      break;
    default:
      return false;
  }
  return ok && decoder->ok();
}

}  // namespace

std::string Stream::Encode() const {
  std::string bytes = Begin(kStreamVersion, database, slab, id);
  AppendPrefixed(&bytes, retention_class);
  AppendPrefixed(&bytes, structure);
  return CloseRecord(std::move(bytes));
}

Result<Stream> Stream::Decode(std::string_view bytes) {
  Decoder decoder(FieldsOf(bytes, kStreamVersion));
  Stream stream;
  bool ok = ReadPlace(&decoder, &stream.database, &stream.slab, &stream.id);
  stream.retention_class = decoder.Prefixed();
  stream.structure = decoder.Prefixed();
  if (!ok || !decoder.Finished()) return Corruption("these bytes are no saved stream");
  return stream;
}

std::string Iterator::Encode() const {
  std::string bytes = Begin(kIteratorVersion, database, slab, stream);
  AppendPrefixed(&bytes, filter);
  AppendVarint(&bytes, end.has_value() ? 1 : 0);
  if (end.has_value()) AppendVarint(&bytes, static_cast<std::uint64_t>(*end));
  AppendLittle<std::uint8_t>(&bytes, static_cast<std::uint8_t>(position.kind));
  AppendVarint(&bytes, static_cast<std::uint64_t>(position.timestamp));
  if (position.kind == Position::Kind::kAfterMessage) {
    AppendVarint(&bytes, position.serial.value());
    AppendVarint(&bytes, position.index);
  } else if (position.kind == Position::Kind::kAfterKey) {
    AppendPrefixed(&bytes, position.words);
  }
  return CloseRecord(std::move(bytes));
}

Result<Iterator> Iterator::Decode(std::string_view bytes) {
  const Status fault = Corruption("these bytes are no saved iterator");
  Decoder decoder(FieldsOf(bytes, kIteratorVersion));
  Iterator iterator;
  if (!ReadPlace(&decoder, &iterator.database, &iterator.slab, &iterator.stream)) return fault;
  iterator.filter = decoder.Prefixed();
  const std::uint64_t bounded = decoder.Varint();
  if (bounded > 1) return fault;
  if (bounded == 1) {
    iterator.end = static_cast<std::int64_t>(decoder.Varint());
    if (*iterator.end < 0) return fault;
  }
  if (!ReadPosition(&decoder, &iterator.position) || !decoder.Finished()) return fault;
  return iterator;
}

}  // namespace topicdb
