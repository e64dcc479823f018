#include "replication/entry.h"

#include "base/bytes/coding.h"
#include "replication/hashed_bytes.h"
#include "store/catalog/family_names.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kVersion = 1;

void AppendFamily(std::string* bytes, const SlabFamily& family) {
  bytes->push_back(static_cast<char>(family.part));
  AppendVarint(bytes, family.retention_class.value());
  AppendVarint(bytes, family.generation.value());
}

// Sets `number` to the next varint. Returns false if it is too large for 32 bits.
bool ReadNumber(Decoder* decoder, std::uint32_t* number) {
  const std::uint64_t read = decoder->Varint();
  *number = static_cast<std::uint32_t>(read);
  return read <= UINT32_MAX;
}

bool ReadFamily(Decoder* decoder, SlabFamily* family) {
  const auto part = decoder->Little<std::uint8_t>();
  family->part = static_cast<FamilyPart>(part);
  std::uint32_t retention_class = 0;
  std::uint32_t generation = 0;
  if (!ReadNumber(decoder, &retention_class) || !ReadNumber(decoder, &generation)) return false;
  family->retention_class = RetentionClassId{retention_class};
  family->generation = Generation{generation};
  return part >= static_cast<std::uint8_t>(FamilyPart::kKeys) &&
         part <= static_cast<std::uint8_t>(FamilyPart::kPages);
}

bool IsKnown(std::uint8_t kind) { return kind <= static_cast<std::uint8_t>(EntryKind::kDigest); }

bool HasBatch(EntryKind kind) { return kind == EntryKind::kBatch || kind == EntryKind::kPages; }

// Reads what follows the fields that all entries have. Returns false if it is malformed.
bool ReadContent(Decoder* decoder, Entry* entry) {
  if (HasBatch(entry->kind)) {
    entry->previous_serial = Serial{decoder->Little<std::uint64_t>()};
    entry->serial = Serial{decoder->Little<std::uint64_t>()};
  } else if (entry->kind == EntryKind::kPart) {
    entry->part = decoder->Little<std::uint32_t>();
    entry->parts = decoder->Little<std::uint32_t>();
    entry->body = decoder->Bytes(decoder->rest().size());
    return decoder->Finished() && entry->part < entry->parts;
  } else if (entry->kind == EntryKind::kLead || entry->kind == EntryKind::kDigest) {
    return decoder->Finished();
  }
  // A count that is too large ends at the first family that is not there.
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    NamedFamily named;
    if (HasBatch(entry->kind) && !ReadNumber(decoder, &named.id)) return false;
    if (!ReadFamily(decoder, &named.family)) return false;
    if (HasBatch(entry->kind)) {
      entry->families.push_back(named);
    } else {
      entry->dropped.push_back(named.family);
    }
  }
  if (HasBatch(entry->kind)) entry->body = decoder->Bytes(decoder->rest().size());
  return decoder->Finished();
}

}  // namespace

std::string NameOf(const SlabFamily& family) {
  const SlabId slab{0, family.retention_class, family.generation};
  switch (family.part) {
    case FamilyPart::kBlocks:
      return BlocksFamilyName(slab);
    case FamilyPart::kPages:
      return PagesFamilyName(slab);
    case FamilyPart::kKeys:
      break;
  }
  return FamilyName(slab);
}

bool DecodeName(std::string_view name, SlabFamily* family) {
  SlabId slab;
  if (!DecodeFamilyName(name, &slab)) return false;
  family->retention_class = slab.retention_class;
  family->generation = slab.generation;
  family->part = IsBlocksFamily(name)  ? FamilyPart::kBlocks
                 : IsPagesFamily(name) ? FamilyPart::kPages
                                       : FamilyPart::kKeys;
  return true;
}

std::string Encode(const Entry& entry) {
  std::string bytes;
  bytes.reserve(entry.body.size() + 64 + 16 * entry.families.size());
  bytes.push_back(static_cast<char>(kVersion));
  bytes.push_back(static_cast<char>(entry.kind));
  AppendLittle<std::uint64_t>(&bytes, entry.epoch);
  AppendLittle<std::uint64_t>(&bytes, entry.number);
  if (HasBatch(entry.kind)) {
    AppendLittle<std::uint64_t>(&bytes, entry.previous_serial.value());
    AppendLittle<std::uint64_t>(&bytes, entry.serial.value());
    AppendVarint(&bytes, entry.families.size());
    for (const NamedFamily& named : entry.families) {
      AppendVarint(&bytes, named.id);
      AppendFamily(&bytes, named.family);
    }
    bytes += entry.body;
  } else if (entry.kind == EntryKind::kDrop) {
    AppendVarint(&bytes, entry.dropped.size());
    for (const SlabFamily& family : entry.dropped) AppendFamily(&bytes, family);
  } else if (entry.kind == EntryKind::kPart) {
    AppendLittle<std::uint32_t>(&bytes, entry.part);
    AppendLittle<std::uint32_t>(&bytes, entry.parts);
    bytes += entry.body;
  }
  AppendHash(&bytes);
  return bytes;
}

bool IsPart(std::string_view bytes) {
  return bytes.size() > 1 && static_cast<EntryKind>(bytes[1]) == EntryKind::kPart;
}

Result<Entry> DecodeEntry(std::string_view bytes) {
  const auto damaged = [] { return Corruption("an entry of the replicated log is damaged"); };
  const auto content = WithoutHash(bytes);
  if (!content.has_value()) return damaged();
  Decoder decoder(*content);
  const auto version = decoder.Little<std::uint8_t>();
  const auto kind = decoder.Little<std::uint8_t>();
  Entry entry;
  entry.epoch = decoder.Little<std::uint64_t>();
  entry.number = decoder.Little<std::uint64_t>();
  if (!decoder.ok() || version == 0 || kind == 0) return damaged();
  if (version > kVersion || !IsKnown(kind)) {
    return SchemaFault("an entry of the replicated log is of a later version of TopicDB (version " +
                       std::to_string(version) + ", kind " + std::to_string(kind) +
                       "): upgrade TopicDB on this site");
  }
  entry.kind = static_cast<EntryKind>(kind);
  if (!ReadContent(&decoder, &entry)) return damaged();
  return entry;
}

}  // namespace topicdb::replication
