#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include "arrow/arrow_properties.h"
#include "topicdb/arrow.h"

// Ownership: each exported structure has an object on the heap as private_data, which owns
// everything that the structure points to. Its release callback deletes that object. Any thread may
// call it, since it touches nothing else.
namespace topicdb {

namespace {

constexpr std::size_t kColumns = 3;
constexpr std::size_t kAllColumns = kColumns + kPropertyColumns;
constexpr std::array<const char*, kColumns> kColumnNames{"topic", "timestamp", "value"};
constexpr std::string_view kMissingShardsKey = "topicdb.missing_shards";

// What an exported schema owns.
struct SchemaHolder {
  std::array<ArrowSchema, kAllColumns> children{};
  std::array<ArrowSchema*, kAllColumns> pointers{};
  std::string metadata;
};

void AddSized(std::string_view text, std::string* metadata) {
  const auto size = static_cast<std::int32_t>(text.size());
  char bytes[sizeof size];
  std::memcpy(bytes, &size, sizeof size);
  metadata->append(bytes, sizeof size).append(text);
}

// Returns metadata with one entry, as Arrow's C data interface encodes it: the number of entries,
// and then each key and value behind its size, with all numbers in the byte order of the machine.
std::string MetadataOf(const MissingReasons& missing) {
  std::string numbers;
  for (const auto& [shard, reason] : missing) {
    if (!numbers.empty()) numbers += ',';
    numbers += std::to_string(shard);
  }
  const std::int32_t entries = 1;
  std::string metadata(reinterpret_cast<const char*>(&entries), sizeof entries);
  AddSized(kMissingShardsKey, &metadata);
  AddSized(numbers, &metadata);
  return metadata;
}

const char* NameOf(std::size_t column) {
  return column < kColumns ? kColumnNames[column] : PropertyColumnName(column - kColumns);
}

// Points to those of the first `count` children that are wanted, and releases the others. Returns
// how many are wanted.
template <typename Holder>
std::int64_t Choose(const ArrowColumns& columns, std::size_t count, Holder* holder) {
  std::size_t chosen = 0;
  for (std::size_t column = 0; column < count; ++column) {
    auto& child = holder->children[column];
    if (columns.Has(column)) {
      holder->pointers[chosen++] = &child;
    } else if (child.release != nullptr) {
      child.release(&child);
    }
  }
  return static_cast<std::int64_t>(chosen);
}

void ReleaseChildSchema(ArrowSchema* schema) { schema->release = nullptr; }

void ReleaseSchema(ArrowSchema* schema) {
  for (std::int64_t i = 0; i < schema->n_children; ++i) {
    if (schema->children[i]->release != nullptr) schema->children[i]->release(schema->children[i]);
  }
  schema->release = nullptr;
  delete static_cast<SchemaHolder*>(schema->private_data);
}

ArrowSchema LeafSchema(const char* format, const char* name) {
  ArrowSchema schema{};
  schema.format = format;
  schema.name = name;
  schema.release = &ReleaseChildSchema;
  return schema;
}

// What an exported column owns. A column may be moved out of its parent and outlive it, so each
// keeps the batch alive by itself.
struct ColumnHolder {
  std::shared_ptr<const Batch> batch;
  std::array<const void*, 3> buffers{};
};

// What an exported batch owns: its columns.
struct BatchHolder {
  std::array<ArrowArray, kAllColumns> children{};
  std::array<ArrowArray*, kAllColumns> pointers{};
  std::array<const void*, 1> buffers{};
};

void ReleaseColumn(ArrowArray* array) {
  array->release = nullptr;
  delete static_cast<ColumnHolder*>(array->private_data);
}

void ReleaseBatch(ArrowArray* array) {
  for (std::int64_t i = 0; i < array->n_children; ++i) {
    if (array->children[i]->release != nullptr) array->children[i]->release(array->children[i]);
  }
  array->release = nullptr;
  delete static_cast<BatchHolder*>(array->private_data);
}

// Makes a column of the batch without nulls. `buffers` are those behind the validity, which it
// leaves out. The last may be null if it is empty.
void FillColumn(const std::shared_ptr<const Batch>& batch,
                std::initializer_list<const void*> buffers, ArrowArray* out) {
  auto* holder = new ColumnHolder{batch, {}};
  std::copy(buffers.begin(), buffers.end(), holder->buffers.begin() + 1);
  *out = {};
  out->length = static_cast<std::int64_t>(batch->size());
  out->n_buffers = static_cast<std::int64_t>(1 + buffers.size());
  out->buffers = holder->buffers.data();
  out->release = &ReleaseColumn;
  out->private_data = holder;
}

// What an exported stream owns.
struct StreamHolder {
  std::shared_ptr<Scan> scan;
  PageLimits limits;
  ValueForm form;
  ArrowColumns columns;
  std::string last_error;
};

StreamHolder& HolderOf(ArrowArrayStream* stream) {
  return *static_cast<StreamHolder*>(stream->private_data);
}

int StreamGetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  const StreamHolder& holder = HolderOf(stream);
  ExportSchema(out, holder.form, holder.scan->missing_shards(), holder.columns);
  return 0;
}

int StreamGetNext(ArrowArrayStream* stream, ArrowArray* out) {
  StreamHolder& holder = HolderOf(stream);
  auto batch = holder.scan->Next(holder.limits);
  if (!batch.ok()) {
    holder.last_error = batch.status().message();
    return EIO;
  }
  if (*batch == nullptr) {
    *out = {};  // a released array tells the end
  } else if (holder.form == ValueForm::kStored) {
    ExportBatch(*batch, nullptr, out, holder.columns);
  } else {
    const bool with_properties = holder.form == ValueForm::kProperties;
    ExportBatch(PayloadsOf(*batch), with_properties ? *batch : nullptr, out, holder.columns);
  }
  return 0;
}

const char* StreamGetLastError(ArrowArrayStream* stream) {
  const std::string& error = HolderOf(stream).last_error;
  return error.empty() ? nullptr : error.c_str();
}

void StreamRelease(ArrowArrayStream* stream) {
  stream->release = nullptr;
  delete &HolderOf(stream);
}

}  // namespace

Result<ArrowColumns> ArrowColumns::Of(const std::vector<std::string>& names) {
  std::uint32_t bits = 0;
  for (const std::string& name : names) {
    std::size_t column = 0;
    while (column < kAllColumns && name != NameOf(column)) ++column;
    if (column < kAllColumns) {
      bits |= std::uint32_t{1} << column;
      continue;
    }
    std::string known;
    for (std::size_t i = 0; i < kAllColumns; ++i)
      known += (i > 0 ? ", " : "") + std::string(NameOf(i));
    return InvalidArgument("columns: there is no column '" + name + "'; there are " + known);
  }
  return ArrowColumns(bits);
}

void ExportSchema(ArrowSchema* out, ValueForm form, const MissingReasons& missing,
                  const ArrowColumns& columns) {
  auto* holder = new SchemaHolder;
  holder->children[0] = LeafSchema("u", kColumnNames[0]);
  holder->children[1] = LeafSchema("tsu:UTC", kColumnNames[1]);
  holder->children[2] = LeafSchema("z", kColumnNames[2]);
  const bool with_properties = form == ValueForm::kProperties;
  if (with_properties) FillPropertySchemas(&holder->children[kColumns]);
  *out = {};
  out->format = "+s";
  out->name = "";
  if (!missing.empty()) {
    holder->metadata = MetadataOf(missing);
    out->metadata = holder->metadata.data();
  }
  out->n_children = Choose(columns, with_properties ? kAllColumns : kColumns, holder);
  out->children = holder->pointers.data();
  out->release = &ReleaseSchema;
  out->private_data = holder;
}

void ExportBatch(std::shared_ptr<const Batch> batch, ArrowArray* out) {
  ExportBatch(batch, nullptr, out, {});
}

void ExportBatch(const std::shared_ptr<const Batch>& batch,
                 const std::shared_ptr<const Batch>& stored, ArrowArray* out,
                 const ArrowColumns& columns) {
  auto* holder = new BatchHolder;
  FillColumn(batch, {batch->topic_offsets().data(), batch->topic_bytes().data()},
             &holder->children[0]);
  FillColumn(batch, {batch->timestamps().data()}, &holder->children[1]);
  FillColumn(batch, {batch->value_offsets().data(), batch->value_bytes().data()},
             &holder->children[2]);
  if (stored != nullptr) FillPropertyArrays(*stored, &holder->children[kColumns]);
  *out = {};
  out->length = static_cast<std::int64_t>(batch->size());
  out->n_buffers = 1;
  out->buffers = holder->buffers.data();
  out->n_children = Choose(columns, stored != nullptr ? kAllColumns : kColumns, holder);
  out->children = holder->pointers.data();
  out->release = &ReleaseBatch;
  out->private_data = holder;
}

void ExportStream(std::shared_ptr<Scan> scan, const PageLimits& limits, ValueForm form,
                  ArrowArrayStream* out, const ArrowColumns& columns) {
  *out = {};
  out->get_schema = &StreamGetSchema;
  out->get_next = &StreamGetNext;
  out->get_last_error = &StreamGetLastError;
  out->release = &StreamRelease;
  out->private_data = new StreamHolder{std::move(scan), limits, form, columns, {}};
}

}  // namespace topicdb
