#include <algorithm>
#include <utility>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/format/page_rows.h"
#include "layout/columnar/format/parcel.h"
#include "topicdb/database/parcel.h"

namespace topicdb {

namespace {

constexpr std::size_t kReservedRowsMax = 1 << 16;

Status ParcelFault(const char* what) {
  return Corruption(std::string("a parcel of messages is damaged: ") + what);
}

// Takes a record from the front of `rest`, with the zeros behind it. Returns false if it is cut
// off.
bool TakeRecord(std::string_view* rest, std::size_t size, std::string_view* record) {
  if (columnar::Aligned(size) > rest->size()) return false;
  *record = rest->substr(0, size);
  rest->remove_prefix(columnar::Aligned(size));
  return true;
}

}  // namespace

ParcelReader::~ParcelReader() = default;

Status ParcelReader::Begin(std::string_view bytes) {
  page_.reset();
  pages_left_ = 0;
  failure_ = Status::Ok();
  if (bytes.size() < columnar::kParcelHeaderBytes || !bytes.starts_with(columnar::kParcelMagic)) {
    return ParcelFault("it does not begin as one");
  }
  Decoder header(bytes.substr(columnar::kParcelMagic.size()));
  const auto version = header.Little<std::uint32_t>();
  const auto pages = header.Little<std::uint32_t>();
  if (version != kParcelVersion) return ParcelFault("its version is unknown");
  if (pages == 0) return ParcelFault("it has no pages");
  rest_ = bytes.substr(columnar::kParcelHeaderBytes);
  pages_left_ = pages;
  return Status::Ok();
}

Status ParcelReader::NextPage() {
  std::string_view header;
  if (!TakeRecord(&rest_, columnar::kParcelPageBytes, &header)) {
    return ParcelFault("it is cut off");
  }
  Decoder fields(header);
  const auto keys_bytes = fields.Little<std::uint32_t>();
  const auto values_bytes = fields.Little<std::uint32_t>();
  columnar::Placement placement;
  placement.keeps_groups = true;
  placement.serial = Serial{fields.Little<std::uint64_t>()};
  placement.time_shift = static_cast<std::int64_t>(fields.Little<std::uint64_t>());
  const auto flags = fields.Little<std::uint32_t>();
  if (fields.Little<std::uint32_t>() != Crc32(header.substr(0, header.size() - sizeof(flags)))) {
    return ParcelFault("the checksum before a page is wrong");
  }
  const bool is_staged = placement.serial != kNoSerial;
  const bool has_values = (flags & columnar::kValuesLeftOut) == 0;
  if (flags > columnar::kValuesLeftOut || placement.time_shift < 0 ||
      (!is_staged && placement.time_shift != 0)) {
    return ParcelFault("what stands before a page is malformed");
  }
  if (with_values_ && !has_values) return ParcelFault("its values were left out");
  std::string_view keys;
  std::string_view values;
  if (!TakeRecord(&rest_, keys_bytes, &keys) || !TakeRecord(&rest_, values_bytes, &values)) {
    return ParcelFault("it is cut off");
  }
  --pages_left_;
  if (pages_left_ == 0 && !rest_.empty()) return ParcelFault("something follows its last page");
  const auto parts = with_values_ ? columnar::PageParts::kAll : columnar::PageParts::kKeys;
  TOPICDB_ASSIGN_OR_RETURN(page_, columnar::Page::Decode(keys, values, /*owner=*/nullptr, parts,
                                                         is_staged ? &placement : nullptr));
  row_ = 0;
  return Status::Ok();
}

Result<std::shared_ptr<const Batch>> ParcelReader::Next(const PageLimits& limits) {
  TOPICDB_RETURN_IF_ERROR(failure_);
  const auto batch = std::make_shared<Batch>(limits.with_serials);
  columnar::RowCopier copier({limits.rows_max, limits.bytes_max, /*examined_max=*/0}, batch.get());
  while (page_ != nullptr || pages_left_ > 0) {
    if (page_ == nullptr) {
      failure_ = NextPage();
      TOPICDB_RETURN_IF_ERROR(failure_);
    }
    if (batch->empty()) {
      const std::size_t rows = std::min(limits.rows_max, kReservedRowsMax);
      columnar::ReserveLike(*page_, rows, limits.bytes_max, batch.get());
    }
    for (; row_ < page_->rows(); ++row_) {
      if (!copier.Append(*page_, row_)) return std::shared_ptr<const Batch>(batch);
    }
    page_.reset();
  }
  return batch->empty() ? std::shared_ptr<const Batch>() : std::shared_ptr<const Batch>(batch);
}

}  // namespace topicdb
