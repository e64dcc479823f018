#include <string>
#include <utility>
#include <vector>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/format/parcel.h"
#include "layout/parcels.h"

namespace topicdb {

namespace {

using columnar::Aligned;
using columnar::kParcelHeaderBytes;

}  // namespace

ParcelBuilder::ParcelBuilder() { parcel_.bytes.resize(kParcelHeaderBytes); }

void ParcelBuilder::AppendRecord(std::string_view record) {
  parcel_.bytes.append(record);
  parcel_.bytes.resize(Aligned(parcel_.bytes.size()));
}

void ParcelBuilder::AddPage(const PageInParcel& page) {
  std::string header;
  AppendLittle(&header, static_cast<std::uint32_t>(page.keys.size()));
  AppendLittle(&header, static_cast<std::uint32_t>(page.values.size()));
  AppendLittle(&header, page.serial.value());
  AppendLittle(&header, static_cast<std::uint64_t>(page.time_shift));
  AppendLittle(&header, page.has_values ? std::uint32_t{0} : columnar::kValuesLeftOut);
  AppendLittle(&header, Crc32(header));
  AppendRecord(header);
  AppendRecord(page.keys);
  AppendRecord(page.values);
  ++pages_;
  parcel_.messages += page.rows;
}

Status ParcelBuilder::AddRows(const Batch& rows, bool with_values) {
  std::vector<columnar::PackedRow> packed;
  packed.reserve(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    packed.push_back({columnar::kStreamInParcel, rows.topic(row), rows.timestamp(row),
                      rows.serial(row), 0, with_values ? rows.value(row) : std::string_view()});
  }
  return columnar::AddRows(
      packed, with_values ? columnar::PageParts::kAll : columnar::PageParts::kKeys, this);
}

Parcel ParcelBuilder::Take() {
  if (pages_ == 0) return {};
  std::string header(columnar::kParcelMagic);
  AppendLittle(&header, kParcelVersion);
  AppendLittle(&header, pages_);
  parcel_.bytes.replace(0, header.size(), header);
  return std::move(parcel_);
}

Status columnar::AddRows(std::span<const PackedRow> rows, PageParts parts, ParcelBuilder* out) {
  if (rows.empty()) return Status::Ok();
  std::string record;
  TOPICDB_RETURN_IF_ERROR(PackedPageEncoder(PageCodec::kLz4).Encode(rows, &record));
  PageInParcel page;
  page.keys = record;
  page.has_values = parts == PageParts::kAll;
  page.rows = static_cast<std::uint32_t>(rows.size());
  out->AddPage(page);
  return Status::Ok();
}

}  // namespace topicdb
