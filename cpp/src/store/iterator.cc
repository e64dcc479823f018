#include "topicdb/types/iterator.h"

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "topicdb/topic.h"

// docs/internals/format.md, "Streams, iterators, and scans in steps".
namespace topicdb {

namespace {

// DO NOT CHANGE THESE VALUES: users store these bytes. Zero is no version.
constexpr std::uint8_t kStreamVersion = 0x11;
constexpr std::uint8_t kIteratorVersion = 0x22;
constexpr std::uint8_t kOldIteratorVersion = 0x21;  // it does not know what was seen
constexpr std::uint8_t kScanVersion = 0x31;

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
  decoder->Array(database);
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

void AppendPosition(std::string* bytes, const Position& position) {
  AppendLittle<std::uint8_t>(bytes, static_cast<std::uint8_t>(position.kind));
  AppendVarint(bytes, static_cast<std::uint64_t>(position.timestamp));
  if (position.kind == Position::Kind::kAfterMessage) {
    AppendVarint(bytes, position.serial.value());
    AppendVarint(bytes, position.index);
  } else if (position.kind == Position::Kind::kAfterKey) {
    AppendPrefixed(bytes, position.words);
  }
}

void AppendEnd(std::string* bytes, const std::optional<std::int64_t>& end) {
  AppendVarint(bytes, end.has_value() ? 1 : 0);
  if (end.has_value()) AppendVarint(bytes, static_cast<std::uint64_t>(*end));
}

bool ReadEnd(Decoder* decoder, std::optional<std::int64_t>* end) {
  const std::uint64_t bounded = decoder->Varint();
  if (bounded == 1) *end = static_cast<std::int64_t>(decoder->Varint());
  return decoder->ok() && bounded <= 1 && end->value_or(0) >= 0;
}

// Appends what an iterator has seen, of which an earlier version knows nothing.
void AppendSeen(std::string* bytes, const Iterator& iterator) {
  AppendVarint(bytes, iterator.seen.value());
  AppendVarint(bytes, iterator.hidden.size());
  for (const SerialRange& serials : iterator.hidden) {
    AppendVarint(bytes, serials.first.value());
    AppendVarint(bytes, serials.last.value());
  }
  AppendVarint(bytes, iterator.exhausted ? 1 : 0);
  AppendPrefixed(bytes, iterator.structure);
}

bool ReadSeen(Decoder* decoder, Iterator* iterator) {
  iterator->seen = Serial{decoder->Varint()};
  const std::uint64_t hidden = decoder->Varint();
  bool ok = decoder->ok() && iterator->seen != kNoSerial && hidden <= decoder->rest().size();
  for (std::uint64_t i = 0; ok && i < hidden; ++i) {
    SerialRange serials;
    serials.first = Serial{decoder->Varint()};
    serials.last = Serial{decoder->Varint()};
    ok = decoder->ok() && serials.first != kNoSerial && serials.first <= serials.last &&
         (i == 0 || iterator->hidden.back().first <= serials.first);
    iterator->hidden.push_back(serials);
  }
  const std::uint64_t exhausted = decoder->Varint();
  iterator->exhausted = exhausted == 1;
  iterator->structure = decoder->Prefixed();
  return ok && decoder->ok() && exhausted <= 1;
}

void AppendClasses(std::string* bytes, const ScanShard& shard) {
  AppendVarint(bytes, shard.classes.size());
  for (const ScanProgress& progress : shard.classes) {
    AppendVarint(bytes, progress.retention_class.value());
    AppendVarint(bytes, progress.next.value());
    AppendVarint(bytes, progress.last.value());
    AppendVarint(bytes, progress.read.value());
  }
}

// Reads the classes of a shard, which must be in ascending order.
bool ReadClasses(Decoder* decoder, ScanShard* shard) {
  const std::uint64_t count = decoder->Varint();
  bool ok = decoder->ok() && count <= decoder->rest().size();
  for (std::uint64_t i = 0; ok && i < count; ++i) {
    ScanProgress progress;
    progress.retention_class = RetentionClassId{ReadU32(decoder, &ok)};
    progress.next = Generation{ReadU32(decoder, &ok)};
    progress.last = Generation{ReadU32(decoder, &ok)};
    progress.read = Serial{decoder->Varint()};
    ok = ok && decoder->ok() && progress.next != Generation{} && progress.last != Generation{} &&
         (shard->classes.empty() ||
          shard->classes.back().retention_class < progress.retention_class);
    shard->classes.push_back(progress);
  }
  return ok;
}

// Reads the shards, which must be in ascending order, and the classes of those to read.
bool ReadShards(Decoder* decoder, ScanIterator* iterator) {
  const std::uint64_t count = decoder->Varint();
  bool ok = decoder->ok() && count > 0 && count <= decoder->rest().size();
  for (std::uint64_t i = 0; ok && i < count; ++i) {
    ScanShard shard;
    shard.shard = ReadU32(decoder, &ok);
    shard.until = Serial{decoder->Varint()};
    ok = ok && decoder->ok() &&
         (iterator->shards.empty() || iterator->shards.back().shard < shard.shard);
    iterator->shards.push_back(std::move(shard));
  }
  iterator->in_shard = ReadU32(decoder, &ok);
  ok = ok && decoder->ok() && iterator->in_shard <= iterator->shards.size();
  for (std::size_t i = iterator->in_shard; ok && i < iterator->shards.size(); ++i) {
    ok = ReadClasses(decoder, &iterator->shards[i]);
  }
  return ok;
}

bool ReadScanPlace(Decoder* decoder, ScanIterator* iterator) {
  const std::uint64_t has_place = decoder->Varint();
  if (!decoder->ok() || has_place > 1) return false;
  if (has_place == 0) return true;
  ScanPlace place;
  bool ok = true;
  place.in_class = ReadU32(decoder, &ok);
  place.stream = StreamId{ReadU32(decoder, &ok)};
  ok = ok && decoder->ok() &&
       place.in_class < iterator->shards[iterator->in_shard].classes.size() &&
       ReadPosition(decoder, &place.position);
  iterator->place = std::move(place);
  return ok;
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
  const bool is_old = seen == kNoSerial;
  std::string bytes =
      Begin(is_old ? kOldIteratorVersion : kIteratorVersion, database, slab, stream);
  AppendPrefixed(&bytes, filter);
  AppendEnd(&bytes, end);
  AppendPosition(&bytes, position);
  if (!is_old) AppendSeen(&bytes, *this);
  return CloseRecord(std::move(bytes));
}

Result<Iterator> Iterator::Decode(std::string_view bytes) {
  const Status fault = Corruption("these bytes are no saved iterator");
  const bool is_old = !bytes.empty() && bytes[0] == static_cast<char>(kOldIteratorVersion);
  Decoder decoder(FieldsOf(bytes, is_old ? kOldIteratorVersion : kIteratorVersion));
  Iterator iterator;
  if (!ReadPlace(&decoder, &iterator.database, &iterator.slab, &iterator.stream)) return fault;
  iterator.filter = decoder.Prefixed();
  if (!ReadEnd(&decoder, &iterator.end)) return fault;
  if (!ReadPosition(&decoder, &iterator.position)) return fault;
  if (!is_old && !ReadSeen(&decoder, &iterator)) return fault;
  if (!decoder.Finished()) return fault;
  return iterator;
}

std::string ScanIterator::Encode() const {
  std::string bytes(1, static_cast<char>(kScanVersion));
  bytes.append(database.begin(), database.end());
  AppendVarint(&bytes, filters.size());
  for (const std::string& filter : filters) AppendPrefixed(&bytes, filter);
  AppendVarint(&bytes, static_cast<std::uint64_t>(start));
  AppendEnd(&bytes, end);
  AppendVarint(&bytes, shards.size());
  for (const ScanShard& shard : shards) {
    AppendVarint(&bytes, shard.shard);
    AppendVarint(&bytes, shard.until.value());
  }
  AppendVarint(&bytes, in_shard);
  if (at_end()) return CloseRecord(std::move(bytes));
  for (std::size_t i = in_shard; i < shards.size(); ++i) AppendClasses(&bytes, shards[i]);
  AppendVarint(&bytes, counted.value());
  AppendVarint(&bytes, place.has_value() ? 1 : 0);
  if (place.has_value()) {
    AppendVarint(&bytes, place->in_class);
    AppendVarint(&bytes, place->stream.value());
    AppendPosition(&bytes, place->position);
  }
  return CloseRecord(std::move(bytes));
}

Result<ScanIterator> ScanIterator::Decode(std::string_view bytes) {
  const Status fault = Corruption("these bytes are no saved scan");
  Decoder decoder(FieldsOf(bytes, kScanVersion));
  ScanIterator iterator;
  decoder.Array(&iterator.database);
  const std::uint64_t filters = decoder.Varint();
  if (!decoder.ok() || filters > decoder.rest().size()) return fault;
  for (std::uint64_t i = 0; i < filters; ++i) {
    const std::string_view text = decoder.Prefixed();
    if (!decoder.ok() || !Filter::Parse(text).ok()) return fault;
    iterator.filters.emplace_back(text);
  }
  iterator.start = static_cast<std::int64_t>(decoder.Varint());
  if (iterator.start < 0 || !ReadEnd(&decoder, &iterator.end)) return fault;
  if (!ReadShards(&decoder, &iterator)) return fault;
  if (!iterator.at_end()) {
    iterator.counted = Serial{decoder.Varint()};
    if (!ReadScanPlace(&decoder, &iterator)) return fault;
  }
  if (!decoder.Finished()) return fault;
  return iterator;
}

}  // namespace topicdb
