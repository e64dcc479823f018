#include "convert/records.h"

namespace topicdb::python {

namespace py = pybind11;

RecordClass::RecordClass(const char* name, const std::vector<const char*>& fields) : name_(name) {
  for (const char* const field : fields) {
    PyObject* const text = PyUnicode_InternFromString(field);
    if (text == nullptr) throw py::error_already_set();
    fields_.push_back(text);
  }
}

void RecordClass::Use(const py::type& type) {
  // Dataclasses and NamedTuples have the names of their fields there, in the order of their
  // declaration.
  const auto declared = py::getattr(type, "__match_args__", py::tuple()).cast<py::tuple>();
  py::tuple wanted(fields_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) wanted[i] = py::handle(fields_[i]);
  if (!declared.equal(wanted)) {
    throw py::type_error(std::string(name_) + ": the class has the fields " +
                         py::str(declared).cast<std::string>() + ", the extension gives " +
                         py::str(wanted).cast<std::string>());
  }
  type_ = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  is_tuple_ = PyType_IsSubtype(type_, &PyTuple_Type) != 0;
}

bool RecordClass::IsClassOf(py::handle object) const {
  return type_ != nullptr && PyObject_TypeCheck(object.ptr(), type_) != 0;
}

// It takes several times as long to call the class as to fill an object of it.
py::object RecordClass::New() const {
  if (type_ == nullptr) {
    throw py::type_error(std::string(name_) + ": the extension was not given this class");
  }
  const auto size = is_tuple_ ? static_cast<py::ssize_t>(fields_.size()) : 0;
  PyObject* const record = type_->tp_alloc(type_, size);
  if (record == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(record);
}

void RecordClass::Set(const py::object& record, std::size_t field, py::object value) const {
  if (is_tuple_) {
    PyTuple_SET_ITEM(record.ptr(), static_cast<py::ssize_t>(field), value.release().ptr());
  } else if (PyObject_GenericSetAttr(record.ptr(), fields_[field], value.ptr()) != 0) {
    // A frozen dataclass refuses setattr, but not this, which its own constructor uses.
    throw py::error_already_set();
  }
}

}  // namespace topicdb::python
