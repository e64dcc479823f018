#include "convert/arrow_capsules.h"
#include "convert/messages.h"
#include "register.h"
#include "topicdb/database.h"
#include "topicdb/job.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

std::unique_ptr<StagedWriter> OpenWriter(const std::string& path, const std::string& job,
                                         std::size_t memory_bytes_max, bool drop_malformed) {
  const StageOptions options{memory_bytes_max, drop_malformed};
  return Unwrap(WithoutGil([&] { return StagedWriter::Open(path, job, options); }));
}

template <typename Copies>
void Append(StagedWriter& self, const py::object& source, bool escapes, const py::object& key) {
  const Copies copies(source, escapes);
  const KeyCopies given(key);
  const MessageKeys keys = copies.KeysWith(given);
  Check(WithoutGil([&] { return self.Append(copies.messages(), keys); }));
}

StagedTask Finish(StagedWriter& self) {
  return Unwrap(WithoutGil([&] { return self.Finish(); }));
}

JobReceipt Commit(const std::string& path, const std::string& job,
                  const std::vector<std::string>& files, const std::string& sequence,
                  std::uint64_t number, std::uint64_t malformed, std::int64_t timeout_us) {
  const JobCommit commit{job,    files,     sequence,
                         number, malformed, std::chrono::microseconds(timeout_us)};
  return Unwrap(WithoutGil([&] { return CommitJob(path, commit); }));
}

JobReceipt CommitJobOf(Database& self, const std::string& job,
                       const std::vector<std::string>& files, const std::string& sequence,
                       std::uint64_t number, std::uint64_t malformed, std::int64_t timeout_us) {
  const JobCommit commit{job,    files,     sequence,
                         number, malformed, std::chrono::microseconds(timeout_us)};
  return Unwrap(WithoutGil([&] { return self.CommitJob(commit); }));
}

}  // namespace

void RegisterJob(py::module_& module) {
  py::class_<StagedWriter>(module, "StagedWriter", "Stages the messages of a task.",
                           py::release_gil_before_calling_cpp_dtor())
      .def_static("open", &OpenWriter, py::arg("path"), py::arg("job"), py::kw_only(),
                  py::arg("memory_bytes_max"), py::arg("drop_malformed"))
      .def("append_rows", &Append<RowCopies>, py::arg("rows"), py::arg("escapes") = false,
           py::arg("key") = py::none())
      .def("append_arrow", &Append<ArrowCopies>, py::arg("stream"), py::arg("escapes") = false,
           py::arg("key") = py::none())
      .def("finish", &Finish);
  module.def("commit_job", &Commit, py::arg("path"), py::arg("job"), py::arg("files"),
             py::kw_only(), py::arg("sequence"), py::arg("number"), py::arg("malformed"),
             py::arg("timeout_us"));
  module.def(
      "abort_job",
      [](const std::string& path, const std::string& job) {
        Check(WithoutGil([&] { return AbortJob(path, job); }));
      },
      py::arg("path"), py::arg("job"));
}

void RegisterJobsOf(py::class_<Database>& type) {
  type.def("jobs",
           [](const Database& self) { return Unwrap(WithoutGil([&] { return self.Jobs(); })); })
      .def_property_readonly("is_replicated", &Database::is_replicated)
      .def(
          "share_staged",
          [](Database& self, const std::string& job, const std::string& file) {
            Check(WithoutGil([&] { return self.ShareStaged(job, file); }));
          },
          py::arg("job"), py::arg("file"))
      .def("commit_job", &CommitJobOf, py::arg("job"), py::arg("files"), py::kw_only(),
           py::arg("sequence"), py::arg("number"), py::arg("malformed"), py::arg("timeout_us"))
      .def(
          "abort_job",
          [](Database& self, const std::string& job) {
            Check(WithoutGil([&] { return self.AbortJob(job); }));
          },
          py::arg("job"));
}

}  // namespace topicdb::python
