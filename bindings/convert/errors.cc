#include "convert/errors.h"

#include <pybind11/stl.h>

#include "convert/typed_numbers.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// The exception classes. The module keeps them, so they are never released.
struct Classes {
  PyObject* topic = nullptr;
  PyObject* schema = nullptr;
  PyObject* not_found = nullptr;
  PyObject* locked = nullptr;
  PyObject* read_only = nullptr;
  PyObject* corruption = nullptr;
  PyObject* storage = nullptr;
  PyObject* closed = nullptr;
  PyObject* forked = nullptr;
  PyObject* conflict = nullptr;
  PyObject* precondition = nullptr;
  PyObject* quota = nullptr;
  PyObject* exists = nullptr;
  PyObject* missing_shard = nullptr;
  PyObject* no_quorum = nullptr;
  PyObject* unknown_outcome = nullptr;
  PyObject* stale = nullptr;
  PyObject* cluster = nullptr;
};

Classes classes;

// Makes an exception class and adds it to the module.
PyObject* Define(py::module_& module, const char* name, const char* doc, py::handle bases) {
  const std::string qualified = std::string("topicdb.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.add_object(name, type);
  return type;
}

// Makes str() of an error its message. That of a KeyError is the repr of its argument, which suits
// a missing key and not a sentence.
void ShowAsSentence(PyObject* type) {
  py::setattr(type, "__str__", py::getattr(PyExc_Exception, "__str__"));
}

// Defines the errors of servers and sites that are not there.
void DefineUnavailable(py::module_& module, PyObject* error) {
  PyObject* unavailable =
      Define(module, "UnavailableError", "A server, or a majority of the sites, is not there.",
             py::make_tuple(py::handle(error), py::handle(PyExc_ConnectionError)));
  classes.no_quorum = Define(
      module, "NoQuorumError",
      "No site has come to lead in time: a majority must be up. Nothing was done.", unavailable);
  classes.unknown_outcome = Define(
      module, "UnknownOutcomeError",
      "The site that leads was lost: what was asked may be done, now or later.", unavailable);
  classes.stale =
      Define(module, "StaleError", "This site has not come to what a read asks for in time.",
             py::make_tuple(py::handle(unavailable), py::handle(PyExc_TimeoutError)));
  classes.cluster =
      Define(module, "ClusterError",
             "The sites cannot change like this, or this site is none of them any more.",
             py::make_tuple(py::handle(error), py::handle(PyExc_ValueError)));
}

PyObject* ClassOf(Code code) {
  switch (code) {
    case Code::kTopic:
      return classes.topic;
    case Code::kSchema:
      return classes.schema;
    case Code::kNotFound:
      return classes.not_found;
    case Code::kLocked:
      return classes.locked;
    case Code::kReadOnly:
      return classes.read_only;
    case Code::kCorruption:
      return classes.corruption;
    case Code::kStorage:
      return classes.storage;
    case Code::kClosed:
      return classes.closed;
    case Code::kForked:
      return classes.forked;
    case Code::kConflict:
      return classes.conflict;
    case Code::kPrecondition:
      return classes.precondition;
    case Code::kQuota:
      return classes.quota;
    case Code::kExists:
      return classes.exists;
    case Code::kMissingShard:
      return classes.missing_shard;
    case Code::kInvalidArgument:
      return PyExc_ValueError;
    case Code::kInterrupted:
      return PyExc_KeyboardInterrupt;
    case Code::kNotLeader:
      return classes.no_quorum;
    case Code::kUnknownOutcome:
      return classes.unknown_outcome;
    case Code::kStale:
      return classes.stale;
    case Code::kCluster:
      return classes.cluster;
    case Code::kOk:
      break;
  }
  return PyExc_SystemError;
}

}  // namespace

void RegisterErrors(py::module_& module) {
  PyObject* error = Define(module, "Error", "Base of every error of TopicDB.", PyExc_Exception);
  const auto both = [&](PyObject* builtin) {
    return py::make_tuple(py::handle(error), py::handle(builtin));
  };
  classes.topic =
      Define(module, "TopicError", "A malformed topic or topic filter.", both(PyExc_ValueError));
  classes.schema =
      Define(module, "SchemaError", "A schema that is malformed, too new, or not the stored one.",
             both(PyExc_ValueError));
  classes.not_found = Define(module, "NotFoundError", "There is no such database, slab or stream.",
                             both(PyExc_KeyError));
  ShowAsSentence(classes.not_found);
  classes.locked = Define(module, "LockedError", "Another process or handle writes this shard.",
                          both(PyExc_OSError));
  classes.read_only =
      Define(module, "ReadOnlyError", "This handle cannot write there.", both(PyExc_OSError));
  classes.corruption = Define(module, "CorruptionError", "What is on disk is damaged or foreign.",
                              both(PyExc_OSError));
  classes.storage = Define(module, "StorageError",
                           "The file system failed: full, I/O, permissions.", both(PyExc_OSError));
  classes.closed = Define(module, "ClosedError", "The handle is closed.", both(PyExc_RuntimeError));
  classes.forked = Define(module, "ForkedError", "The handle was inherited by a forked process.",
                          both(PyExc_RuntimeError));
  classes.quota = Define(module, "QuotaError",
                         "The database is as large as its quota allows, or a queue is full.",
                         both(PyExc_OSError));
  classes.exists =
      Define(module, "ExistsError", "There is something where something new was to be made.",
             both(PyExc_FileExistsError));
  classes.missing_shard =
      Define(module, "MissingShardError",
             "The database was opened without a shard that this needs; nothing was changed.",
             both(PyExc_OSError));
  DefineUnavailable(module, error);
  classes.conflict = Define(
      module, "ConflictError",
      "A transaction lost against another commit; nothing was applied, a retry may succeed.\n\n"
      "conflicts: list of (filter, start, end, serial): what was read, deleted or required, and "
      "the\n"
      "commit that changed it (0: too long ago to know).",
      both(PyExc_RuntimeError));
  py::setattr(classes.conflict, "conflicts", py::tuple());
  classes.precondition =
      Define(module, "PreconditionError",
             "What a transaction requires is not so; nothing was applied, a retry cannot help.\n\n"
             "failures: list of (topic, timestamp, expected, found); None stands for no message, "
             "True for\n"
             "any.",
             both(PyExc_RuntimeError));
  py::setattr(classes.precondition, "failures", py::tuple());
}

namespace {

py::object BytesOrNone(const std::optional<std::string>& value) {
  return value.has_value() ? py::object(py::bytes(*value)) : py::object(py::none());
}

py::list ConflictsOf(const CommitFault& fault) {
  py::list items;
  for (const ConflictItem& item : fault.conflicts) {
    items.append(py::make_tuple(item.filter, item.range.start, item.range.end, item.serial));
  }
  return items;
}

py::object ExpectedOf(const PreconditionItem& item) {
  return item.expects_any ? py::object(py::bool_(true)) : BytesOrNone(item.expected);
}

py::list FailuresOf(const CommitFault& fault) {
  py::list items;
  for (const PreconditionItem& item : fault.preconditions) {
    items.append(
        py::make_tuple(item.topic, item.timestamp, ExpectedOf(item), BytesOrNone(item.found)));
  }
  return items;
}

}  // namespace

py::object ExceptionOf(const Status& status, const CommitFault& fault) {
  py::object error = ExceptionOf(status);
  if (status.code() == Code::kConflict) py::setattr(error, "conflicts", ConflictsOf(fault));
  if (status.code() == Code::kPrecondition) py::setattr(error, "failures", FailuresOf(fault));
  return error;
}

void RaiseCommitFault(const Status& status, const CommitFault& fault) {
  const py::object error = ExceptionOf(status, fault);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

py::object ExceptionOf(const Status& status) {
  try {
    Raise(status);
  } catch (const py::error_already_set& error) {
    return error.value();
  }
}

void Raise(const Status& status) {
  // If a signal handler has raised an exception, that is the one to throw.
  if (!(status.code() == Code::kInterrupted && PyErr_Occurred() != nullptr)) {
    // A message may quote bytes that are not UTF-8.
    const std::string& text = status.message();
    const py::object message = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    if (message) PyErr_SetObject(ClassOf(status.code()), message.ptr());
  }
  throw py::error_already_set();
}

}  // namespace topicdb::python
