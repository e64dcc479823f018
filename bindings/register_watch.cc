#include "register.h"
#include "topicdb/stream_watch.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A watch of streams in Python.
struct PyStreamWatch {
  std::shared_ptr<StreamWatch> watch;
};

std::vector<Stream> NextStreams(const PyStreamWatch& self, std::optional<std::int64_t> timeout_us) {
  return Unwrap(
      WithoutGil([&] { return self.watch->Next(Timeout(timeout_us), &PythonInterrupts); }));
}

void CloseWatch(const PyStreamWatch& self) {
  const py::gil_scoped_release release;  // waits for a call in flight
  self.watch->Close();
}

PyStreamWatch WatchStreams(const Database& self, const py::str& filter, bool existing) {
  const Filter parsed = ParseFilter(filter);
  return {Unwrap(WithoutGil([&] { return self.WatchStreams(parsed, existing); }))};
}

}  // namespace

void RegisterStreamWatch(py::module_& module, py::class_<Database>& type) {
  py::class_<PyStreamWatch>(module, "StreamWatch", "Notice of new streams.",
                            py::release_gil_before_calling_cpp_dtor())
      .def("next_streams", &NextStreams, py::arg("timeout_us"))
      .def("close", &CloseWatch);
  type.def("watch_streams", &WatchStreams, py::arg("filter"), py::arg("existing"));
}

}  // namespace topicdb::python
