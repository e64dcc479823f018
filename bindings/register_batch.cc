#include <pybind11/numpy.h>

#include <optional>
#include <vector>

#include "convert/arrow_capsules.h"
#include "convert/batch_iterator.h"
#include "convert/messages.h"
#include "register.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using SharedBatch = std::shared_ptr<const Batch>;

// A batch in Python. It is a class of its own because pybind11 cannot hold pointers to const.
// Immutable, so thread-safe.
struct PyBatch : MessageRows {
  ArrowColumns columns;
};

// Returns an array that refers to memory of the batch, and keeps the batch alive.
template <typename Number>
py::array_t<Number> ArrayOf(const PyBatch& self, std::span<const Number> numbers) {
  const auto* owner = new SharedBatch(self.batch);
  const py::capsule keep(owner, [](void* pointer) { delete static_cast<SharedBatch*>(pointer); });
  py::array_t<Number> array(static_cast<py::ssize_t>(numbers.size()), numbers.data(), keep);
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::array_t<std::int64_t> Timestamps(const PyBatch& self) {
  return ArrayOf(self, self.batch->timestamps());
}

py::object Serials(const PyBatch& self) {
  if (!self.batch->keeps_serials()) return py::none();
  return ArrayOf(self, self.batch->serials());
}

py::list Topics(const PyBatch& self) {
  py::list topics;
  for (std::size_t row = 0; row < self.batch->size(); ++row) {
    topics.append(py::str(self.batch->topic(row)));
  }
  return topics;
}

py::list Values(const PyBatch& self) {
  py::list values;
  for (std::size_t row = 0; row < self.batch->size(); ++row) {
    values.append(py::bytes(self.batch->value(row)));
  }
  return values;
}

py::list ToList(const PyBatch& self) {
  py::list messages(self.batch->size());
  for (std::size_t row = 0; row < self.batch->size(); ++row) {
    PyList_SET_ITEM(messages.ptr(), static_cast<py::ssize_t>(row),
                    MessageAt(self, row).release().ptr());
  }
  return messages;
}

py::object GetItem(const PyBatch& self, py::ssize_t index) {
  const auto size = static_cast<py::ssize_t>(self.batch->size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw py::index_error("batch index out of range");
  return MessageAt(self, static_cast<std::size_t>(index));
}

py::object AllProperties(const PyBatch& self) {
  if (self.stored == nullptr) return py::none();
  py::list properties(self.stored->size());
  for (std::size_t row = 0; row < self.stored->size(); ++row) {
    PyObject* const item = NewProperties(*self.stored, row);
    if (item == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(properties.ptr(), static_cast<py::ssize_t>(row), item);
  }
  return properties;
}

// Returns the batch with values of another form, or `self` if there is nothing to change.
py::object ReadAs(const py::object& self, const std::string& form) {
  const PyBatch& rows = self.cast<const PyBatch&>();
  const SharedBatch& stored = rows.batch;
  const ValueForm wanted = ParseForm(form);
  if (wanted == ValueForm::kStored) return self;
  SharedBatch payloads = WithoutGil([&] { return PayloadsOf(stored); });
  if (wanted == ValueForm::kProperties) {
    return py::cast(PyBatch{{std::move(payloads), stored}, rows.columns});
  }
  return payloads == stored ? self : WrapBatch(std::move(payloads), rows.columns);
}

// Returns a batch with the keys of another, and empty values.
SharedBatch KeysOf(const Batch& batch) {
  auto keys = std::make_shared<Batch>(batch.keeps_serials());
  keys->Reserve(batch.size(), batch.topic_bytes().size(), 0);
  for (std::size_t row = 0; row < batch.size(); ++row) {
    keys->Append({batch.topic(row), batch.timestamp(row), {}}, batch.serial(row));
  }
  return keys;
}

py::object Select(const PyBatch& self, const std::vector<std::string>& names) {
  const ArrowColumns columns = Unwrap(ArrowColumns::Of(names));
  if (columns.NeedValues()) return py::cast(PyBatch{{self.batch, self.stored}, columns});
  return WrapBatch(WithoutGil([&] { return KeysOf(*self.batch); }), columns);
}

// The schema of messages in Python, which Arrow libraries take.
struct PySchema {
  ValueForm form;
  ArrowColumns columns;
};

PySchema SchemaOf(const std::string& form, const ColumnNames& columns) {
  return {ParseForm(form), ParseColumns(columns)};
}

using SerialArray = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;

// Returns an empty batch with room for topics and values of so many bytes. Throws ValueError if no
// batch can hold them.
std::shared_ptr<Batch> RoomFor(std::size_t rows, std::size_t topic_bytes, std::size_t value_bytes,
                               bool keeps_serials) {
  auto batch = std::make_shared<Batch>(keeps_serials);
  if (!batch->Fits(topic_bytes, value_bytes)) {
    throw py::value_error("messages of more than 2 GiB are no batch: split them");
  }
  batch->Reserve(rows, topic_bytes, value_bytes);
  return batch;
}

// Returns a batch with copies of the messages. REQUIRES: the GIL
py::object NewBatch(const std::vector<MessageView>& messages,
                    const std::optional<SerialArray>& serials) {
  if (serials.has_value() && serials->size() != static_cast<py::ssize_t>(messages.size())) {
    throw py::value_error("serials: one for each message is needed");
  }
  std::size_t topic_bytes = 0;
  std::size_t value_bytes = 0;
  for (const MessageView& message : messages) {
    topic_bytes += message.topic.size();
    value_bytes += message.value.size();
  }
  const auto batch = RoomFor(messages.size(), topic_bytes, value_bytes, serials.has_value());
  for (std::size_t row = 0; row < messages.size(); ++row) {
    batch->Append(messages[row], serials.has_value()
                                     ? Serial{serials->at(static_cast<py::ssize_t>(row))}
                                     : kNoSerial);
  }
  return WrapBatch(batch);
}

py::object BatchOfRows(const py::iterable& rows, bool escapes,
                       const std::optional<SerialArray>& serials) {
  return NewBatch(RowCopies(rows, escapes).messages(), serials);
}

py::object BatchOfArrow(const py::object& source, const std::optional<SerialArray>& serials,
                        bool escapes) {
  const ArrowCopies copies(source, escapes);
  if (copies.has_keys()) {
    throw py::value_error("column 'key': the messages of a batch have no keys");
  }
  return NewBatch(copies.messages(), serials);
}

// Returns a batch with the messages of all these batches, without serials.
py::object BatchOfBatches(const py::sequence& parts) {
  std::vector<SharedBatch> batches;
  batches.reserve(parts.size());
  for (const py::handle part : parts) batches.push_back(part.cast<const PyBatch&>().batch);
  return WrapBatch(WithoutGil([&] {
    std::size_t rows = 0;
    std::size_t topic_bytes = 0;
    std::size_t value_bytes = 0;
    for (const SharedBatch& batch : batches) {
      rows += batch->size();
      topic_bytes += batch->topic_bytes().size();
      value_bytes += batch->value_bytes().size();
    }
    const auto whole = RoomFor(rows, topic_bytes, value_bytes, false);
    for (const SharedBatch& batch : batches) {
      for (std::size_t row = 0; row < batch->size(); ++row) {
        whole->Append({batch->topic(row), batch->timestamp(row), batch->value(row)}, kNoSerial);
      }
    }
    return std::shared_ptr<const Batch>(whole);
  }));
}

}  // namespace

py::object WrapBatch(std::shared_ptr<const Batch> batch, const ArrowColumns& columns) {
  return py::cast(PyBatch{{std::move(batch), nullptr}, columns});
}

void RegisterBatch(py::module_& module) {
  py::class_<PySchema>(module, "ArrowSchema", "The Arrow schema of every batch.")
      .def("__arrow_c_schema__",
           [](const PySchema& self) { return SchemaCapsule(self.form, self.columns); });
  module.def("arrow_schema", &SchemaOf, py::arg("form") = "stored",
             py::arg("columns") = py::none());

  module.def("empty_batch", [] { return WrapBatch(std::make_shared<const Batch>()); });
  module.def("batch_of_rows", &BatchOfRows, py::arg("rows"), py::arg("escapes") = false,
             py::arg("serials") = py::none());
  module.def("batch_of_arrow", &BatchOfArrow, py::arg("source"), py::arg("serials") = py::none(),
             py::arg("escapes") = false);
  module.def("batch_of_batches", &BatchOfBatches, py::arg("batches"), py::pos_only());
  py::class_<PyBatch>(module, "Batch",
                      "Messages as columns. Immutable; outlives the database it came from.")
      .def_property_readonly("topics", &Topics, "list[str]: the topic of each message")
      .def_property_readonly("timestamps", &Timestamps,
                             "read-only int64 array, microseconds since the epoch; no copy")
      .def_property_readonly("values", &Values, "list[bytes]: the value of each message")
      .def_property_readonly("serials", &Serials)
      .def_property_readonly("properties", &AllProperties)
      .def("read_as", &ReadAs, py::arg("form"), py::pos_only())
      .def("select", &Select, py::arg("columns"), py::pos_only())
      .def_property_readonly("nbytes", [](const PyBatch& self) { return self.batch->bytes(); })
      .def("__len__", [](const PyBatch& self) { return self.batch->size(); })
      .def("__getitem__", &GetItem, py::arg("index"), py::pos_only())
      .def("__iter__", [](const PyBatch& self) { return IterateBatch(self); })
      .def("to_list", &ToList, "The messages as a list.")
      .def("__arrow_c_schema__",
           [](const PyBatch& self) {
             return SchemaCapsule(
                 self.stored != nullptr ? ValueForm::kProperties : ValueForm::kStored,
                 self.columns);
           })
      .def(
          "__arrow_c_array__",
          [](const PyBatch& self, const py::object&) {
            return BatchCapsules(self.batch, self.stored, self.columns);
          },
          py::arg("requested_schema") = py::none())
      .attr("__module__") = "topicdb";
}

}  // namespace topicdb::python
