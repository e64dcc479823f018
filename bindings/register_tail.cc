#include "convert/messages.h"
#include "register.h"
#include "topicdb/tail.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A tail in Python.
struct PyTail {
  std::shared_ptr<Tail> tail;
};

py::object NextBatch(const PyTail& self, std::size_t rows_max, std::size_t bytes_max,
                     std::optional<std::int64_t> timeout_us, bool with_serials) {
  Result<std::shared_ptr<const Batch>> batch = [&] {
    const py::gil_scoped_release release;  // reads files, and waits
    return self.tail->Next({rows_max, bytes_max, with_serials}, Timeout(timeout_us),
                           &PythonInterrupts);
  }();
  std::shared_ptr<const Batch> value = Unwrap(std::move(batch));
  return value == nullptr ? py::none() : WrapBatch(std::move(value));
}

std::map<std::uint32_t, Serial> Serials(const PyTail& self) {
  const py::gil_scoped_release release;  // waits for a call in flight
  return self.tail->serials();
}

void CloseTail(const PyTail& self) {
  const py::gil_scoped_release release;  // waits for a call in flight
  self.tail->Close();
}

}  // namespace

py::object WrapTail(std::unique_ptr<Tail> tail) {
  return py::cast(PyTail{std::shared_ptr<Tail>(std::move(tail))});
}

void RegisterTail(py::module_& module) {
  py::class_<PyTail>(module, "Tail", "A reader of the commit log.",
                     py::release_gil_before_calling_cpp_dtor())
      .def("next_batch", &NextBatch, py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("timeout_us"), py::arg("with_serials") = false)
      .def("serials", &Serials)
      .def("shards",
           [](const PyTail& self) {
             const auto& shards = self.tail->shards();
             return std::vector<std::uint32_t>(shards.begin(), shards.end());
           })
      .def("missing_shards", [](const PyTail& self) { return self.tail->missing_shards(); })
      .def("close", &CloseTail);
}

}  // namespace topicdb::python
