#include "arrow/arrow_properties.h"

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "topicdb/envelope.h"
#include "topicdb/types/times.h"

namespace topicdb {

namespace {

// The name and the Arrow type of a column.
struct Field {
  const char* name;
  const char* format;
  std::vector<Field> children;
  bool is_nullable = true;
};

// Returns the columns in their order. Their types are those that readers of Arrow know best, so
// numbers have a sign.
const std::array<Field, kPropertyColumns>& Fields() {
  static const std::array<Field, kPropertyColumns> fields{{
      {"qos", "i", {}},
      {"retain", "b", {}},
      {"client_id", "u", {}},
      {"payload_format", "i", {}},
      {"message_expiry_s", "l", {}},
      {"content_type", "u", {}},
      {"response_topic", "u", {}},
      {"correlation_data", "z", {}},
      {"user_properties",
       "+l",
       {{"item", "+s", {{"name", "u", {}, false}, {"value", "u", {}, false}}, false}}},
      {"subscription_ids", "+l", {{"item", "l", {}, false}}},
      {"received", "tsu:UTC", {}},
  }};
  return fields;
}

// What an exported schema owns.
struct SchemaHolder {
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

// The release callback of an ArrowSchema or ArrowArray whose private_data is a `Holder`.
template <typename Structure, typename Holder>
void Release(Structure* structure) {
  for (std::int64_t i = 0; i < structure->n_children; ++i) {
    if (structure->children[i]->release != nullptr) {
      structure->children[i]->release(structure->children[i]);
    }
  }
  structure->release = nullptr;
  delete static_cast<Holder*>(structure->private_data);
}

ArrowSchema SchemaOf(const Field& field) {
  auto holder = std::make_unique<SchemaHolder>();
  for (const Field& child : field.children) holder->children.push_back(SchemaOf(child));
  for (ArrowSchema& child : holder->children) holder->pointers.push_back(&child);
  ArrowSchema schema{};
  schema.format = field.format;
  schema.name = field.name;
  schema.flags = field.is_nullable ? ARROW_FLAG_NULLABLE : 0;
  schema.n_children = static_cast<std::int64_t>(holder->children.size());
  schema.children = holder->pointers.data();
  schema.release = &Release<ArrowSchema, SchemaHolder>;
  schema.private_data = holder.release();
  return schema;
}

// A column. It is filled item by item, and then an exported array owns it and points to it. Not
// thread-safe while it is filled.
class Column {
 public:
  explicit Column(const Field& field) : format_(field.format) {
    for (const Field& child : field.children) children_.push_back(std::make_unique<Column>(child));
    if (HasOffsets()) offsets_.push_back(0);
  }

  // Each adds one item.
  void AddNull() {
    if (validity_.empty()) validity_.assign(static_cast<std::size_t>(length_) / 8 + 1, '\xff');
    if (format_ == "i") {
      AddBytes(std::int32_t{0});
    } else if (format_ == "l" || format_ == "tsu:UTC") {
      AddBytes(std::int64_t{0});
    } else if (format_ == "b") {
      AddBit(&data_, false);
    }
    ++nulls_;
    End(false);
  }
  void AddInt(std::int32_t number) {
    AddBytes(number);
    End(true);
  }
  void AddLong(std::int64_t number) {
    AddBytes(number);
    End(true);
  }
  void AddBool(bool is_true) {
    AddBit(&data_, is_true);
    End(true);
  }
  void AddText(std::string_view text) {
    data_.insert(data_.end(), text.begin(), text.end());
    End(true);
  }
  // Adds an item that is a list or a struct. It has what was added to the children since the last
  // one.
  void End() { End(true); }

  Column& child(std::size_t i) { return *children_[i]; }

  // Returns an array that owns the column.
  static ArrowArray Export(std::unique_ptr<Column> column) {
    for (std::unique_ptr<Column>& child : column->children_) {
      column->child_arrays_.push_back(Export(std::move(child)));
    }
    for (ArrowArray& child : column->child_arrays_) column->child_pointers_.push_back(&child);
    ArrowArray array{};
    array.length = column->length_;
    array.null_count = column->nulls_;
    array.n_buffers = column->FillBuffers();
    array.buffers = column->buffers_.data();
    array.n_children = static_cast<std::int64_t>(column->child_arrays_.size());
    array.children = column->child_pointers_.data();
    array.release = &Release<ArrowArray, Column>;
    array.private_data = column.release();
    return array;
  }

 private:
  bool HasOffsets() const { return format_ == "u" || format_ == "z" || format_ == "+l"; }

  template <typename Number>
  void AddBytes(Number number) {
    const std::size_t at = data_.size();
    data_.resize(at + sizeof(number));
    std::memcpy(data_.data() + at, &number, sizeof(number));
  }
  void AddBit(std::vector<char>* bits, bool is_set) const {
    const auto at = static_cast<std::size_t>(length_);
    if (at / 8 >= bits->size()) bits->push_back(0);
    const auto bit = static_cast<char>(1 << at % 8);
    (*bits)[at / 8] = static_cast<char>(is_set ? (*bits)[at / 8] | bit : (*bits)[at / 8] & ~bit);
  }
  void End(bool is_valid) {
    if (!validity_.empty()) AddBit(&validity_, is_valid);
    if (HasOffsets()) {
      offsets_.push_back(format_ == "+l" ? static_cast<std::int32_t>(children_[0]->length_)
                                         : static_cast<std::int32_t>(data_.size()));
    }
    ++length_;
  }
  std::int64_t FillBuffers() {
    std::int64_t count = 0;
    const auto add = [&](const void* buffer) {
      buffers_[static_cast<std::size_t>(count++)] = buffer;
    };
    add(validity_.empty() ? nullptr : validity_.data());
    if (HasOffsets()) add(offsets_.data());
    if (children_.empty()) add(data_.data());
    return count;
  }

  const std::string_view format_;
  std::int64_t length_ = 0;
  std::int64_t nulls_ = 0;
  std::vector<char> validity_;  // bits; empty if nothing is null
  std::vector<std::int32_t> offsets_;
  std::vector<char> data_;
  std::vector<std::unique_ptr<Column>> children_;

  std::array<const void*, 3> buffers_{};
  std::vector<ArrowArray> child_arrays_;
  std::vector<ArrowArray*> child_pointers_;
};

// Adds the value, or null if there is none.
template <typename Optional, typename Add>
void AddOptional(Column* column, const Optional& value, Add add) {
  if (value.has_value()) {
    (column->*add)(*value);
  } else {
    column->AddNull();
  }
}

// The columns of one batch.
class PropertyColumns {
 public:
  PropertyColumns() {
    for (const Field& field : Fields()) columns_.push_back(std::make_unique<Column>(field));
  }

  void AddNone() {
    for (const auto& column : columns_) column->AddNull();
  }

  void Add(const Envelope& envelope, std::int64_t timestamp) {
    columns_[0]->AddInt(envelope.qos);
    columns_[1]->AddBool(envelope.retain);
    const bool is_known = !envelope.client_id.empty();
    AddOptional(columns_[2].get(), is_known ? std::optional(envelope.client_id) : std::nullopt,
                &Column::AddText);
    AddOptional(columns_[3].get(), envelope.payload_format, &Column::AddInt);
    AddOptional(columns_[4].get(), envelope.message_expiry_s, &Column::AddLong);
    AddOptional(columns_[5].get(), envelope.content_type, &Column::AddText);
    AddOptional(columns_[6].get(), envelope.response_topic, &Column::AddText);
    AddOptional(columns_[7].get(), envelope.correlation_data, &Column::AddText);
    Column& pairs = columns_[8]->child(0);
    for (const UserProperty& property : envelope.user_properties) {
      pairs.child(0).AddText(property.name);
      pairs.child(1).AddText(property.value);
      pairs.End();
    }
    columns_[8]->End();
    for (const std::int64_t id : envelope.subscription_ids) columns_[9]->child(0).AddLong(id);
    columns_[9]->End();
    columns_[10]->AddLong(envelope.received_at ? TimestampAt(*envelope.received_at) : timestamp);
  }

  void Export(ArrowArray* out) {
    for (std::unique_ptr<Column>& column : columns_) *out++ = Column::Export(std::move(column));
  }

 private:
  std::vector<std::unique_ptr<Column>> columns_;
};

}  // namespace

const char* PropertyColumnName(std::size_t column) { return Fields()[column].name; }

void FillPropertySchemas(ArrowSchema* out) {
  for (const Field& field : Fields()) *out++ = SchemaOf(field);
}

void FillPropertyArrays(const Batch& stored, ArrowArray* out) {
  PropertyColumns columns;
  Envelope envelope;
  for (std::size_t row = 0; row < stored.size(); ++row) {
    if (envelope.Decode(stored.value(row)) && envelope.has_properties) {
      columns.Add(envelope, stored.timestamp(row));
    } else {
      columns.AddNone();
    }
  }
  columns.Export(out);
}

}  // namespace topicdb
