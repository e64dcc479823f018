#include "convert/arrow_capsules.h"

#include <cstring>

#include "convert/errors.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// The destructor of a capsule. A consumer that took the structure over has set `release` to null.
// Otherwise this releases the structure. It frees its memory in both cases.
template <typename Structure>
void DeleteCapsule(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  auto* structure = static_cast<Structure*>(PyCapsule_GetPointer(capsule, name));
  if (structure->release != nullptr) structure->release(structure);
  delete structure;
}

template <typename Structure>
py::object NewCapsule(std::unique_ptr<Structure> structure, const char* name) {
  PyObject* capsule = PyCapsule_New(structure.get(), name, &DeleteCapsule<Structure>);
  if (capsule == nullptr) throw py::error_already_set();
  structure.release();
  return py::reinterpret_steal<py::object>(capsule);
}

// Returns the structure in a capsule. Throws ValueError if it was released.
template <typename Structure>
Structure* PointerOf(const py::handle& capsule, const char* name) {
  auto* structure = static_cast<Structure*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (structure == nullptr) throw py::error_already_set();
  if (structure->release == nullptr)
    throw py::value_error("this Arrow object was released already");
  return structure;
}

// A structure that a stream has given. Its destructor releases it.
template <typename Structure>
struct Owned : Structure {
  Owned() : Structure{} {}
  ~Owned() {
    if (this->release != nullptr) this->release(this);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};

// Throws the error of a stream, if there is one.
void CheckStream(int error, ArrowArrayStream* stream) {
  if (error == 0) return;
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  const char* message = stream->get_last_error(stream);
  throw py::value_error(std::string("the Arrow stream failed: ") +
                        (message == nullptr ? std::strerror(error) : message));
}

}  // namespace

py::object SchemaCapsule(ValueForm form, const ArrowColumns& columns) {
  auto schema = std::make_unique<ArrowSchema>();
  ExportSchema(schema.get(), form, {}, columns);
  return NewCapsule(std::move(schema), "arrow_schema");
}

py::tuple BatchCapsules(const std::shared_ptr<const Batch>& batch,
                        const std::shared_ptr<const Batch>& stored, const ArrowColumns& columns) {
  auto array = std::make_unique<ArrowArray>();
  ExportBatch(batch, stored, array.get(), columns);
  const ValueForm form = stored != nullptr ? ValueForm::kProperties : ValueForm::kStored;
  return py::make_tuple(SchemaCapsule(form, columns), NewCapsule(std::move(array), "arrow_array"));
}

py::object StreamCapsule(std::shared_ptr<Scan> scan, const PageLimits& limits, ValueForm form,
                         const ArrowColumns& columns) {
  auto stream = std::make_unique<ArrowArrayStream>();
  ExportStream(std::move(scan), limits, form, stream.get(), columns);
  return NewCapsule(std::move(stream), "arrow_array_stream");
}

ArrowCopies::ArrowCopies(const py::object& source, bool escapes) {
  if (py::hasattr(source, "__arrow_c_stream__")) {
    ReadStream(source);
  } else {
    ReadArray(source);
  }
  if (escapes) escaped_.Apply(messages_);
}

void ArrowCopies::ReadStream(const py::object& source) {
  const py::object capsule = source.attr("__arrow_c_stream__")();
  auto* stream = PointerOf<ArrowArrayStream>(capsule, "arrow_array_stream");
  Owned<ArrowSchema> schema;
  int error = 0;
  {
    // The producer may read a database, as ours does, or take the GIL itself.
    const py::gil_scoped_release release;
    error = stream->get_schema(stream, &schema);
  }
  CheckStream(error, stream);
  const ArrowMessages reader = Unwrap(ArrowMessages::Make(schema));
  if (reader.has_keys()) keys_.emplace();  // there may be no batch
  while (true) {
    Owned<ArrowArray> array;
    {
      const py::gil_scoped_release release;
      error = stream->get_next(stream, &array);
    }
    CheckStream(error, stream);
    if (array.release == nullptr) return;
    Take(reader, array);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void ArrowCopies::ReadArray(const py::object& source) {
  const py::tuple capsules = source.attr("__arrow_c_array__")();
  const auto* schema = PointerOf<ArrowSchema>(capsules[0], "arrow_schema");
  const auto* array = PointerOf<ArrowArray>(capsules[1], "arrow_array");
  const ArrowMessages reader = Unwrap(ArrowMessages::Make(*schema));
  if (reader.has_keys()) keys_.emplace();
  Take(reader, *array);
}

MessageKeys ArrowCopies::KeysWith(const KeyCopies& given) const {
  MessageKeys keys = given.keys();
  if (!keys_.has_value()) return keys;
  if (keys.given()) {
    throw py::value_error(
        "key: the messages have a column 'key', too: give the column or the argument, not both");
  }
  keys.each = MessageKeys::Each(*keys_);
  return keys;
}

void ArrowCopies::Take(const ArrowMessages& reader, const ArrowArray& array) {
  const std::size_t first = messages_.size();
  Check(reader.Append(array, first, &messages_, keys_.has_value() ? &*keys_ : nullptr));
  std::size_t size = 0;
  for (std::size_t i = first; i < messages_.size(); ++i) {
    size += messages_[i].topic.size() + messages_[i].value.size();
    if (keys_.has_value()) size += (*keys_)[i].value_or(std::string_view()).size();
  }
  char* block = blocks_.emplace_back(size + 1).data();
  const auto keep = [&](std::string_view bytes) {
    char* begin = block;
    std::memcpy(begin, bytes.data(), bytes.size());
    block += bytes.size();
    return std::string_view(begin, bytes.size());
  };
  for (std::size_t i = first; i < messages_.size(); ++i) {
    messages_[i].topic = keep(messages_[i].topic);
    messages_[i].value = keep(messages_[i].value);
    if (keys_.has_value() && (*keys_)[i].has_value()) (*keys_)[i] = keep(*(*keys_)[i]);
  }
}

}  // namespace topicdb::python
