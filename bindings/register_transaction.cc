#include "convert/mailbox.h"
#include "convert/messages.h"
#include "register.h"

#include <chrono>

#include "topicdb/transaction.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using OptionalTime = std::optional<std::int64_t>;

// Returns a copy of the bytes, since another thread may change a bytearray while it is written.
std::string BytesOf(const py::object& value) {
  const py::object view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(value.ptr()));
  if (!view) {
    PyErr_Clear();
    throw py::type_error(std::string("value: expected bytes-like, got ") +
                         Py_TYPE(value.ptr())->tp_name);
  }
  const py::object bytes = py::reinterpret_steal<py::object>(PyBytes_FromObject(view.ptr()));
  if (!bytes) throw py::error_already_set();
  return bytes.cast<std::string>();
}

TopicUse UseOf(bool reserved) { return reserved ? TopicUse::kReserved : TopicUse::kPublic; }

// Returns the timestamp that the core takes. Throws ValueError for a negative one, of which -1
// stands for None there.
std::int64_t TimeOf(OptionalTime timestamp) {
  if (timestamp.has_value() && *timestamp < 0) {
    throw py::value_error("timestamp " + std::to_string(*timestamp) +
                          " is outside 0 <= t < 2**63 microseconds");
  }
  return timestamp.value_or(kAssignTimestamp);
}

void Write(Transaction& self, const py::str& topic, OptionalTime timestamp, const py::object& value,
           bool reserved, bool escapes) {
  const std::string text = TopicText(topic, "topic");
  const std::int64_t time = TimeOf(timestamp);
  if (value.is_none()) {
    Check(self.WriteSerial(text, time, UseOf(reserved)));
  } else {
    const std::string bytes = BytesOf(value);
    const std::optional<std::string> escaped = escapes ? EscapedValue(bytes) : std::nullopt;
    Check(self.Write({text, time, escaped.value_or(bytes)}, UseOf(reserved)));
  }
}

py::object Get(Transaction& self, const py::str& topic, std::int64_t timestamp) {
  const std::string text = TopicText(topic, "topic");
  Result<std::optional<std::string>> found = [&] {
    const py::gil_scoped_release release;
    return self.Get(text, timestamp);
  }();
  const std::optional<std::string> value = Unwrap(std::move(found));
  return value.has_value() ? py::object(py::bytes(*value)) : py::object(py::none());
}

py::object NewScan(Transaction& self, const py::str& filter, OptionalTime start, OptionalTime end) {
  const Filter parsed = ParseFilter(filter);
  Result<std::unique_ptr<Scan>> scan = [&] {
    const py::gil_scoped_release release;
    return self.NewScan(parsed, {start, end});
  }();
  return WrapScan(Unwrap(std::move(scan)));
}

void Require(Transaction& self, const py::str& topic, std::int64_t timestamp,
             const py::object& value) {
  const std::string text = TopicText(topic, "topic");
  if (value.is_none()) {
    Check(self.RequireAbsent(text, timestamp));
  } else {
    Check(self.Require(text, timestamp, BytesOf(value)));
  }
}

Receipt Commit(Transaction& self) {
  Result<Receipt> receipt = [&] {
    const py::gil_scoped_release release;
    return self.Commit();
  }();
  if (!receipt.ok()) RaiseCommitFault(receipt.status(), self.fault());
  return std::move(receipt).value();
}

// Begins to commit. The outcome comes to `completions`, with `token`. Returns false if the queue of
// the shard was full for `room_us`; None waits for ever.
bool CommitAsync(Transaction& self, std::shared_ptr<Completions> completions, std::uint64_t token,
                 bool urgent, std::optional<std::int64_t> room_us) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> room_until;
  if (room_us.has_value()) room_until = Clock::now() + std::chrono::microseconds(*room_us);
  auto done = [completions = std::move(completions), token](CommitOutcome outcome) {
    completions->Add({token, std::move(outcome.receipt), std::move(outcome.fault)});
  };
  return Unwrap(WithoutGil([&] { return self.CommitAsync(std::move(done), urgent, room_until); }));
}

const char* GiveUp(Transaction& self) {
  switch (WithoutGil([&] { return self.GiveUp(); })) {
    case CommitKnown::kNotStored:
      return "not stored";
    case CommitKnown::kStored:
      return "stored";
    case CommitKnown::kUnknown:
      break;
  }
  return "unknown";
}

py::list TakeCompletions(Completions& self) {
  const std::vector<Completion> items = WithoutGil([&] { return self.Take(); });
  py::list result;
  for (const Completion& item : items) {
    result.append(py::make_tuple(item.token, item.outcome.ok()
                                                 ? Object(item.outcome.value())
                                                 : ExceptionOf(item.outcome.status(), item.fault)));
  }
  return result;
}

}  // namespace

void RegisterTransaction(py::module_& module) {
  py::class_<Completions, std::shared_ptr<Completions>>(
      module, "Completions", "Outcomes of asynchronous appends and commits.")
      .def(py::init<>())
      .def("take", &TakeCompletions)
      .def("close", &Completions::Close);
  py::class_<Transaction>(module, "Transaction", "A running transaction.",
                          py::release_gil_before_calling_cpp_dtor())
      .def("write", &Write, py::arg("topic"), py::arg("timestamp"), py::arg("value").none(true),
           py::arg("reserved") = false, py::arg("escapes") = false)
      .def(
          "delete",
          [](Transaction& self, const py::str& filter, OptionalTime start, OptionalTime end,
             bool reserved) {
            Check(self.Delete(ParseFilter(filter), {start, end}, UseOf(reserved)));
          },
          py::arg("filter"), py::arg("start"), py::arg("end"), py::arg("reserved") = false)
      .def("get", &Get, py::arg("topic"), py::arg("timestamp"))
      .def("scan", &NewScan, py::arg("filter"), py::arg("start"), py::arg("end"))
      .def("require", &Require, py::arg("topic"), py::arg("timestamp"), py::arg("value").none(true))
      .def(
          "require_present",
          [](Transaction& self, const py::str& topic, std::int64_t timestamp) {
            Check(self.RequirePresent(TopicText(topic, "topic"), timestamp));
          },
          py::arg("topic"), py::arg("timestamp"))
      .def("commit", &Commit)
      .def("commit_async", &CommitAsync, py::arg("completions"), py::arg("token"),
           py::arg("urgent"), py::arg("room_us"))
      .def("give_up", &GiveUp)
      .def("rollback",
           [](Transaction& self) {
             const py::gil_scoped_release release;  // may wait for a call in flight
             self.Rollback();
           })
      .def_property_readonly("open", &Transaction::open)
      .def_property_readonly("shard", &Transaction::shard);
}

}  // namespace topicdb::python
