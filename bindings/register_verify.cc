// The functions about a database on disk that need no handle: verify and its like, and drop.
#include <exception>

#include "register.h"
#include "topicdb/database/on_disk.h"
#include "topicdb/repair.h"
#include "topicdb/verify.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// Tells a Python function how far a long call is. What the function raises ends the call. The call
// owns it. Not thread-safe.
class Progress {
 public:
  explicit Progress(py::object function) : function_(std::move(function)) {}

  template <typename... Args>
  void Tell(Args... args) {
    if (error_ != nullptr) return;
    const py::gil_scoped_acquire gil;
    try {
      function_(args...);
    } catch (const py::error_already_set&) {
      error_ = std::current_exception();
    }
  }
  bool is_wanted() const { return !function_.is_none(); }
  bool Interrupts() const { return error_ != nullptr || PythonInterrupts(); }
  // Throws what the function has raised, if anything. REQUIRES: the GIL
  void Rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const py::object function_;
  std::exception_ptr error_;
};

Verification Verify(const std::string& path, bool deep, py::object progress) {
  Progress told(std::move(progress));
  VerifyOptions options{deep};
  if (told.is_wanted()) {
    options.progress = [&](std::uint64_t done, std::uint64_t total) { told.Tell(done, total); };
  }
  auto verified =
      WithoutGil([&] { return VerifyDatabase(path, options, [&] { return told.Interrupts(); }); });
  told.Rethrow();
  return Unwrap(std::move(verified));
}

const char* NameOf(RepairPhase phase) {
  switch (phase) {
    case RepairPhase::kVerify:
      return "verify";
    case RepairPhase::kRebuild:
      return "rebuild";
    case RepairPhase::kCheck:
      return "check";
  }
  return "";
}

Repair RepairDamage(const std::string& path, py::object progress, bool replace_missing) {
  Progress told(std::move(progress));
  RepairOptions options;
  options.replace_missing = replace_missing;
  if (told.is_wanted()) {
    options.progress = [&](RepairPhase phase, std::uint64_t done, std::uint64_t total) {
      told.Tell(NameOf(phase), done, total);
    };
  }
  auto repaired =
      WithoutGil([&] { return RepairDatabase(path, options, [&] { return told.Interrupts(); }); });
  told.Rethrow();
  return Unwrap(std::move(repaired));
}

const char* NameOf(DirectoryState state) {
  switch (state) {
    case DirectoryState::kNothing:
      return "nothing";
    case DirectoryState::kCreating:
      return "creating";
    case DirectoryState::kDatabase:
      return "database";
    case DirectoryState::kDropping:
      return "dropping";
  }
  return "";
}

const char* LookAt(const std::string& path) {
  return NameOf(Unwrap(WithoutGil([&] { return LookAtDirectory(path); })));
}

// Returns (path, state) of each.
py::list DatabasesIn(const std::string& directory) {
  py::list found;
  for (const DatabaseEntry& entry : Unwrap(WithoutGil([&] { return ListDatabases(directory); }))) {
    found.append(py::make_tuple(entry.path, NameOf(entry.state)));
  }
  return found;
}

// Returns (files, bytes).
py::tuple Drop(const std::string& path, bool dry_run) {
  const DroppedFiles dropped =
      Unwrap(WithoutGil([&] { return DropDatabase(path, dry_run, &PythonInterrupts); }));
  return py::make_tuple(dropped.files, dropped.bytes);
}

}  // namespace

void RegisterVerify(py::module_& module) {
  module.def("verify", &Verify, py::arg("path"), py::arg("deep"), py::arg("progress"));
  module.def("repair", &RepairDamage, py::arg("path"), py::arg("progress"),
             py::arg("replace_missing") = false);
  module.def("look_at", &LookAt, py::arg("path"));
  module.def("databases_in", &DatabasesIn, py::arg("directory"));
  module.def("drop", &Drop, py::arg("path"), py::arg("dry_run"));
}

}  // namespace topicdb::python
