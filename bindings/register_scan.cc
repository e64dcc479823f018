#include "convert/arrow_capsules.h"
#include "convert/messages.h"
#include "register.h"
#include "topicdb/database/parcel.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A scan in Python. It shares the core's scan with Arrow streams, which may outlive it.
struct PyScan {
  std::shared_ptr<Scan> scan;
  ArrowColumns columns;
};

// A parcel in Python, which lends its bytes.
struct PyParcel {
  std::shared_ptr<const Parcel> parcel;
};

py::object NextBatch(const PyScan& self, std::size_t rows_max, std::size_t bytes_max,
                     bool with_serials) {
  Result<std::shared_ptr<const Batch>> batch = [&] {
    const py::gil_scoped_release release;  // reads files
    return self.scan->Next({rows_max, bytes_max, with_serials}, &PythonInterrupts);
  }();
  std::shared_ptr<const Batch> value = Unwrap(std::move(batch));
  return value == nullptr ? py::none() : WrapBatch(std::move(value), self.columns);
}

py::object NextArrow(const PyScan& self, std::size_t rows_max, std::size_t bytes_max,
                     const std::string& form) {
  py::object batch = NextBatch(self, rows_max, bytes_max, false);
  return batch.is_none() ? batch : batch.attr("read_as")(form);
}

py::object TakeStream(const PyScan& self, std::size_t rows_max, std::size_t bytes_max,
                      const std::string& form) {
  return StreamCapsule(self.scan, {rows_max, bytes_max}, ParseForm(form), self.columns);
}

// Returns the next parcel and the number of its messages, or None at the end.
py::object NextParcel(const PyScan& self, std::size_t bytes_max) {
  Result<std::shared_ptr<const Parcel>> parcel = [&] {
    const py::gil_scoped_release release;  // reads files
    return self.scan->NextParcel(bytes_max, &PythonInterrupts);
  }();
  std::shared_ptr<const Parcel> value = Unwrap(std::move(parcel));
  return value == nullptr ? py::none() : py::cast(PyParcel{std::move(value)});
}

py::buffer_info BytesOf(const PyParcel& self) {
  const std::string& bytes = self.parcel->bytes;
  return {const_cast<char*>(bytes.data()),
          1,
          py::format_descriptor<std::uint8_t>::format(),
          1,
          {bytes.size()},
          {1},
          /*readonly=*/true};
}

// Returns the messages of a parcel as batches with serials.
std::vector<py::object> Unpack(const py::bytes& data, bool with_values) {
  const std::string bytes = data;  // at an address that is aligned
  std::vector<std::shared_ptr<const Batch>> batches;
  const Status status = [&]() -> Status {
    const py::gil_scoped_release release;  // decompresses
    ParcelReader reader(with_values);
    TOPICDB_RETURN_IF_ERROR(reader.Begin(bytes));
    PageLimits limits;
    limits.with_serials = true;
    while (true) {
      TOPICDB_ASSIGN_OR_RETURN(auto batch, reader.Next(limits));
      if (batch == nullptr) return Status::Ok();
      batches.push_back(std::move(batch));
    }
  }();
  Check(status);
  std::vector<py::object> wrapped;
  wrapped.reserve(batches.size());
  for (auto& batch : batches) wrapped.push_back(WrapBatch(std::move(batch)));
  return wrapped;
}

void CloseScan(const PyScan& self) {
  const py::gil_scoped_release release;  // waits for a call in flight
  self.scan->Close();
}

}  // namespace

bool PythonInterrupts() {
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

ArrowColumns ParseColumns(const ColumnNames& names) {
  return names.has_value() ? Unwrap(ArrowColumns::Of(*names)) : ArrowColumns();
}

py::object WrapScan(std::unique_ptr<Scan> scan, const ArrowColumns& columns) {
  return py::cast(PyScan{std::shared_ptr<Scan>(std::move(scan)), columns});
}

void RegisterScan(py::module_& module) {
  py::class_<PyParcel>(module, "Parcel", "Messages as they are stored.", py::buffer_protocol())
      .def_buffer(&BytesOf)
      .def_static("unpack", &Unpack, py::arg("data"), py::arg("with_values"))
      .def_property_readonly("messages",
                             [](const PyParcel& self) { return self.parcel->messages; });
  py::class_<PyScan>(module, "Scan", "A running read.", py::release_gil_before_calling_cpp_dtor())
      .def("next_batch", &NextBatch, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("with_serials") = false)
      .def("next_arrow", &NextArrow, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("form") = "stored")
      .def("arrow_stream", &TakeStream, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("form") = "stored")
      .def("next_parcel", &NextParcel, py::arg("bytes_max"))
      .def("missing_shards", [](const PyScan& self) { return self.scan->missing_shards(); })
      .def("close", &CloseScan);
}

}  // namespace topicdb::python
