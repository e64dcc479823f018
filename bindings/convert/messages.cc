#include "convert/messages.h"

#include <algorithm>

#include "convert/errors.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// What Configure has taken. It is kept for the life of the process, since modules of C++ extensions
// are never unloaded.
PyTypeObject* message_type = nullptr;
PyTypeObject* property_message_type = nullptr;
PyObject* time_us = nullptr;

[[noreturn]] void BadRow(PyObject* type, std::size_t number, const std::string& what) {
  PyErr_SetString(type, ("row " + std::to_string(number) + ": " + what).c_str());
  throw py::error_already_set();
}

std::string TypeName(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

Status NoUtf8(const std::string& what) {
  return TopicFault(what + " has lone surrogates, so it is no valid UTF-8");
}

// Calls time_us(object, what="row N: timestamp"), and lets its errors pass.
py::object ConvertTime(py::handle object, std::size_t number) {
  const std::string what = "row " + std::to_string(number) + ": timestamp";
  return py::reinterpret_borrow<py::object>(time_us)(object, py::arg("what") = what);
}

// Returns the timestamp of a row, or kAssignTimestamp for None.
std::int64_t TimestampOf(py::handle object, std::size_t number) {
  if (object.is_none()) return kAssignTimestamp;
  py::object converted = py::reinterpret_borrow<py::object>(object);
  if (!PyLong_CheckExact(object.ptr())) {
    converted = ConvertTime(object, number);
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(converted.ptr(), &overflow);
  if (overflow != 0 || value < 0) {
    BadRow(PyExc_ValueError, number,
           "timestamp " + py::str(converted).cast<std::string>() +
               " is outside 0 <= t < 2**63 microseconds");
  }
  return value;
}

// Returns a copy of a key, or nothing if the object is neither text nor bytes. `row` is for errors;
// absent: the key is that of all messages.
std::optional<std::string_view> KeyOf(py::handle key, std::optional<std::size_t> row,
                                      KeptBytes* copies) {
  if (PyBytes_Check(key.ptr())) {
    return copies->Keep(PyBytes_AS_STRING(key.ptr()),
                        static_cast<std::size_t>(PyBytes_GET_SIZE(key.ptr())));
  }
  if (!PyUnicode_Check(key.ptr())) return std::nullopt;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    const std::string where = row.has_value() ? "row " + std::to_string(*row) + ": " : "";
    Raise(InvalidArgument(where + "key: it has lone surrogates, so it is no valid UTF-8"));
  }
  return copies->Keep(text, static_cast<std::size_t>(size));
}

// The items of a row, which is a tuple or list of three.
struct RowItems {
  py::object topic;
  py::object timestamp;
  py::object value;
};

RowItems ItemsOf(py::handle row, std::size_t number) {
  const bool is_tuple = PyTuple_Check(row.ptr());
  if ((!is_tuple && !PyList_Check(row.ptr())) || PySequence_Fast_GET_SIZE(row.ptr()) != 3) {
    BadRow(PyExc_TypeError, number,
           "expected a tuple (topic, timestamp, value), got " + TypeName(row));
  }
  PyObject** items = PySequence_Fast_ITEMS(row.ptr());
  return {py::reinterpret_borrow<py::object>(items[0]),
          py::reinterpret_borrow<py::object>(items[1]),
          py::reinterpret_borrow<py::object>(items[2])};
}

}  // namespace

void Configure(py::type type, py::type property_type, py::function converter) {
  message_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  property_message_type = reinterpret_cast<PyTypeObject*>(property_type.release().ptr());
  time_us = converter.release().ptr();
}

std::string TopicText(const py::str& text, const char* what) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  Raise(NoUtf8(what));
}

KeyCopies::KeyCopies(const py::object& key) {
  if (key.is_none()) return;
  all_ = KeyOf(key, std::nullopt, &bytes_);
  if (all_.has_value()) return;
  if (!py::isinstance<py::iterable>(key)) {
    throw py::type_error(
        "key: expected str, bytes, or an iterable of a key for each message, got " + TypeName(key));
  }
  each_.emplace();
  for (const py::handle item : py::reinterpret_borrow<py::iterable>(key)) {
    const std::size_t row = each_->size();
    const auto one = item.is_none() ? std::nullopt : KeyOf(item, row, &bytes_);
    if (!one.has_value() && !item.is_none()) {
      BadRow(PyExc_TypeError, row, "key: expected str, bytes or None, got " + TypeName(item));
    }
    each_->push_back(one);
  }
}

MessageKeys KeyCopies::keys() const {
  MessageKeys keys;
  keys.all = all_;
  if (each_.has_value()) keys.each = MessageKeys::Each(*each_);
  return keys;
}

RowCopies::RowCopies(const py::iterable& rows, bool escapes) {
  std::size_t number = 0;
  for (const py::handle row : rows) Add(row, number++);
  if (escapes) escaped_.Apply(messages_);
}

std::string_view KeptBytes::Keep(const char* bytes, std::size_t size) {
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < size) {
    blocks_.emplace_back().reserve(std::max(size, kBlockBytes));
  }
  std::string& block = blocks_.back();
  const std::size_t begin = block.size();
  block.append(bytes, size);
  return std::string_view(block).substr(begin, size);
}

void RowCopies::Add(py::handle row, std::size_t number) {
  const RowItems items = ItemsOf(row, number);
  MessageView message;
  if (!PyUnicode_Check(items.topic.ptr())) {
    BadRow(PyExc_TypeError, number, "topic: expected str, got " + TypeName(items.topic));
  }
  Py_ssize_t size = 0;
  const char* topic = PyUnicode_AsUTF8AndSize(items.topic.ptr(), &size);
  if (topic == nullptr) {
    PyErr_Clear();
    Raise(NoUtf8("row " + std::to_string(number) + ": topic"));
  }
  message.topic = bytes_.Keep(topic, static_cast<std::size_t>(size));
  message.timestamp = TimestampOf(items.timestamp, number);
  if (PyBytes_Check(items.value.ptr())) {
    message.value = bytes_.Keep(PyBytes_AS_STRING(items.value.ptr()),
                                static_cast<std::size_t>(PyBytes_GET_SIZE(items.value.ptr())));
  } else {
    Py_buffer buffer;
    if (PyUnicode_Check(items.value.ptr()) ||
        PyObject_GetBuffer(items.value.ptr(), &buffer, PyBUF_CONTIG_RO) != 0) {
      PyErr_Clear();
      BadRow(PyExc_TypeError, number,
             "value: expected bytes, bytearray or a contiguous memoryview, got " +
                 TypeName(items.value) + " (text: encode it first)");
    }
    message.value =
        bytes_.Keep(static_cast<const char*>(buffer.buf), static_cast<std::size_t>(buffer.len));
    PyBuffer_Release(&buffer);
  }
  messages_.push_back(message);
}

// A NamedTuple is a tuple whose type has names. It is some ten times as fast to fill one as to call
// its type.
PyObject* NewMessage(const MessageRows& rows, std::size_t row) {
  const Batch& batch = *rows.batch;
  const std::string_view topic = batch.topic(row);
  const std::string_view value = batch.value(row);
  const bool with_properties = rows.stored != nullptr;
  PyTypeObject* const type = with_properties ? property_message_type : message_type;
  PyObject* const tuple = type->tp_alloc(type, with_properties ? 4 : 3);
  if (tuple == nullptr) return nullptr;
  PyObject* const text =
      PyUnicode_DecodeUTF8(topic.data(), static_cast<Py_ssize_t>(topic.size()), nullptr);
  PyObject* const time = PyLong_FromLongLong(batch.timestamp(row));
  PyObject* const bytes =
      PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  PyTuple_SET_ITEM(tuple, 0, text);
  PyTuple_SET_ITEM(tuple, 1, time);
  PyTuple_SET_ITEM(tuple, 2, bytes);
  PyObject* const properties = with_properties ? NewProperties(*rows.stored, row) : nullptr;
  if (with_properties) PyTuple_SET_ITEM(tuple, 3, properties);
  const bool is_whole = text != nullptr && time != nullptr && bytes != nullptr;
  if (is_whole && (properties != nullptr || !with_properties)) return tuple;
  Py_DECREF(tuple);
  return nullptr;
}

py::object MessageAt(const MessageRows& rows, std::size_t row) {
  PyObject* const message = NewMessage(rows, row);
  if (message == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(message);
}

}  // namespace topicdb::python
