#include "segment/slot_file.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "base/file/files.h"

namespace topicdb {

namespace {
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kCrcAt = 28;
constexpr std::size_t kSlotBytesMin = 512;  // a sector, so that the slots never share one
constexpr std::size_t kSlotBytesMax = std::size_t{64} << 20;

std::size_t SlotBytesFor(std::size_t content_bytes) {
  std::size_t slot_bytes = kSlotBytesMin;
  while (slot_bytes < kHeaderBytes + content_bytes) slot_bytes *= 2;
  return slot_bytes;
}

std::uint32_t CrcOf(std::string_view slot) {
  return Crc32(slot.substr(kHeaderBytes), Crc32(slot.substr(0, kCrcAt)));
}
}  // namespace

std::string SlotFile::Encode(SlotMagic magic, std::uint64_t serial, std::size_t slot_bytes,
                             std::string_view content) {
  std::string slot(magic);
  AppendLittle(&slot, kVersion);
  slot.append(2, '\0');
  AppendLittle(&slot, static_cast<std::uint32_t>(content.size()));
  AppendLittle(&slot, serial);
  slot.append(kHeaderBytes - slot.size(), '\0');
  slot.append(content);
  slot.resize(slot_bytes, '\0');
  std::string crc;
  AppendLittle(&crc, CrcOf(slot));
  return slot.replace(kCrcAt, crc.size(), crc);
}

bool SlotFile::Decode(std::string_view bytes, std::uint64_t* serial, std::string* content) const {
  if (bytes.size() < kHeaderBytes) return false;
  Decoder in(bytes);
  if (in.Bytes(magic_.size()) != magic_ || in.Little<std::uint16_t>() != kVersion) return false;
  in.Bytes(2);
  const auto size = in.Little<std::uint32_t>();
  *serial = in.Little<std::uint64_t>();
  in.Bytes(4);
  if (in.Little<std::uint32_t>() != CrcOf(bytes)) return false;
  *content = in.Bytes(size);
  return in.ok();
}

std::string SlotFile::EncodeFile(SlotMagic magic, std::uint64_t serial, std::string_view content) {
  const std::size_t slot_bytes = SlotBytesFor(content.size());
  return Encode(magic, serial, slot_bytes, content) +
         Encode(magic, serial + 1, slot_bytes, content);
}

Result<std::unique_ptr<SlotFile>> SlotFile::Create(const std::string& path, SlotMagic magic,
                                                   std::string_view content) {
  TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(path, EncodeFile(magic, 1, content)));
  return Open(path, magic);
}

Result<std::unique_ptr<SlotFile>> SlotFile::Open(const std::string& path, SlotMagic magic) {
  TOPICDB_ASSIGN_OR_RETURN(auto file, File::OpenForWriting(path));
  std::unique_ptr<SlotFile> slots(new SlotFile(std::move(file), path, magic));
  TOPICDB_RETURN_IF_ERROR(slots->Load());
  return slots;
}

Result<SlotFile::Stored> SlotFile::Read(const std::string& path, SlotMagic magic) {
  SlotFile slots(nullptr, path, magic);
  TOPICDB_RETURN_IF_ERROR(slots.Load());
  return Stored{slots.content_, slots.damaged_};
}

Status SlotFile::Load() {
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path(), 2 * kSlotBytesMax));
  slot_bytes_ = std::max(bytes.size() / 2, kSlotBytesMin);
  bool found = false;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const std::size_t begin = std::min(slot * slot_bytes_, bytes.size());
    std::uint64_t serial = 0;
    std::string content;
    if (!Decode(std::string_view(bytes).substr(begin, slot_bytes_), &serial, &content)) {
      damaged_ = true;
      continue;
    }
    if (found && serial < serial_) continue;
    found = true;
    serial_ = serial;
    content_ = std::move(content);
    next_slot_ = 1 - slot;
  }
  return found ? Status::Ok() : Corruption(path() + " is damaged: both of its copies");
}

Status SlotFile::Replace(std::string_view content) {
  // If this fails half way, the open file may have lost its name, so nothing may be written there.
  file_.reset();
  TOPICDB_RETURN_IF_ERROR(WriteFileAtomically(path(), EncodeFile(magic_, serial_ + 1, content)));
  TOPICDB_ASSIGN_OR_RETURN(auto file, File::OpenForWriting(path()));
  TOPICDB_RETURN_IF_ERROR(Load());
  file_ = std::move(file);
  return Status::Ok();
}

Status SlotFile::Write(std::string_view content, bool sync) {
  if (file_ == nullptr || SlotBytesFor(content.size()) > slot_bytes_) return Replace(content);
  const std::string slot = Encode(magic_, serial_ + 1, slot_bytes_, content);
  TOPICDB_RETURN_IF_ERROR(file_->WriteAt(next_slot_ * slot_bytes_, slot));
  if (sync) TOPICDB_RETURN_IF_ERROR(file_->Sync());
  ++serial_;
  next_slot_ = 1 - next_slot_;
  content_ = content;
  return Status::Ok();
}

}  // namespace topicdb
