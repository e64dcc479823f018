// Functions that look at a database on disk, without a handle.
#include <exception>

#include "register.h"
#include "topicdb/verify.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// A Python function that is told how far a long call is. What it raises ends the call.
class Progress {
 public:
  explicit Progress(py::object function) : function_(std::move(function)) {}

  std::function<void(std::uint64_t, std::uint64_t)> Callback() {
    if (function_.is_none()) return nullptr;
    return [this](std::uint64_t done, std::uint64_t total) {
      if (error_ != nullptr) return;
      const py::gil_scoped_acquire gil;
      try {
        function_(done, total);
      } catch (const py::error_already_set&) {
        error_ = std::current_exception();
      }
    };
  }
  bool Interrupts() const { return error_ != nullptr || PythonInterrupts(); }
  // REQUIRES: the GIL
  void Rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const py::object function_;
  std::exception_ptr error_;
};

py::object SlabTuple(const Problem& problem) {
  if (!problem.slab.has_value()) return py::none();
  return py::make_tuple(problem.retention_class, problem.slab->generation);
}

py::tuple Verify(const std::string& path, bool deep, py::object progress) {
  Progress told(std::move(progress));
  const auto verified = WithoutGil([&] {
    return VerifyDatabase(path, {deep, told.Callback()}, [&] { return told.Interrupts(); });
  });
  told.Rethrow();
  const Verification& report = Unwrap(verified);
  py::list problems;
  for (const Problem& problem : report.problems) {
    problems.append(py::make_tuple(problem.what, problem.shard, SlabTuple(problem),
                                   problem.structures, problem.messages, problem.times));
  }
  return py::make_tuple(problems, py::make_tuple(report.shards, report.slabs, report.blocks,
                                                 report.pages, report.messages));
}

}  // namespace

void RegisterVerify(py::module_& module) {
  module.def("verify", &Verify, py::arg("path"), py::arg("deep"), py::arg("progress"));
}

}  // namespace topicdb::python
