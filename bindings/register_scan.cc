#include "convert/arrow_capsules.h"
#include "convert/messages.h"
#include "register.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A scan in Python. It shares the core's scan with Arrow streams, which may outlive it.
struct PyScan {
  std::shared_ptr<Scan> scan;
  ArrowColumns columns;
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
  py::class_<PyScan>(module, "Scan", "A running read.", py::release_gil_before_calling_cpp_dtor())
      .def("next_batch", &NextBatch, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("with_serials") = false)
      .def("next_arrow", &NextArrow, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("form") = "stored")
      .def("arrow_stream", &TakeStream, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("form") = "stored")
      .def("missing_shards", [](const PyScan& self) { return self.scan->missing_shards(); })
      .def("close", &CloseScan);
}

}  // namespace topicdb::python
