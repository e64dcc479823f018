// The methods of Database for the life of the data: retention, generations, trimming, copies.
#include "register.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using OptionalText = std::optional<std::string>;
Maintenance Maintain(Database& self, std::optional<WallTime> as_if) {
  return Unwrap(WithoutGil([&] { return self.upkeep().Maintain(as_if, PythonInterrupts); }));
}

Maintenance SetRetention(Database& self, const std::vector<RetentionClass>& classes, bool dry_run) {
  return Unwrap(WithoutGil([&] { return self.upkeep().SetRetention(classes, dry_run); }));
}

std::vector<DroppedSlab> SetQuota(Database& self, std::optional<std::uint64_t> quota_bytes,
                                  std::optional<double> quota_trim, bool dry_run) {
  return Unwrap(
      WithoutGil([&] { return self.upkeep().SetQuota(quota_bytes, quota_trim, dry_run); }));
}

void Rotate(Database& self, const OptionalText& retention_class, bool resets_clock,
            const OptionalText& layout) {
  std::optional<LayoutKind> kind;
  if (layout.has_value()) kind = Unwrap(LayoutNamed(*layout));
  Check(WithoutGil([&] { return self.upkeep().Rotate(retention_class, resets_clock, kind); }));
}

TrimCount Trim(Database& self, std::int64_t before_us, const std::optional<py::str>& filter,
               bool dry_run) {
  std::optional<Filter> parsed;
  if (filter.has_value()) parsed = ParseFilter(*filter);
  return Unwrap(
      WithoutGil([&] { return self.Trim(before_us, parsed, dry_run, &PythonInterrupts); }));
}

MadeCopy MakeSnapshot(Database& self, const std::string& path, const OptionalText& base,
                      bool copy) {
  return {
      path,
      Unwrap(WithoutGil([&] { return self.MakeSnapshot(path, {base, copy}, &PythonInterrupts); }))};
}

MadeCopy Restore(const std::string& source, const std::string& path, bool replace,
                 const OptionalText& base, bool copy) {
  const CopyCounts counts = Unwrap(WithoutGil(
      [&] { return Database::Restore(source, path, replace, {base, copy}, &PythonInterrupts); }));
  return {path, {{}, counts}};
}

}  // namespace

void RegisterCopies(py::module_& module) {
  module.def("restore", &Restore, py::arg("source"), py::arg("path"), py::arg("replace"),
             py::arg("base"), py::arg("copy"));
}

void RegisterMaintenance(py::class_<Database>& type) {
  type.def("retention",
           [](const Database& self) {
             return Unwrap(WithoutGil([&] { return self.upkeep().Retention(); }));
           })
      .def("set_retention", &SetRetention, py::arg("classes"), py::arg("dry_run") = false)
      .def("quota",
           [](const Database& self) {
             return Unwrap(WithoutGil([&] { return self.upkeep().Quota(); }));
           })
      .def("set_quota", &SetQuota, py::arg("quota_bytes"), py::arg("quota_trim"),
           py::arg("dry_run") = false)
      .def("rotate", &Rotate, py::arg("retention_class"), py::arg("resets_clock") = false,
           py::arg("layout") = py::none())
      .def("slabs",
           [](const Database& self) {
             return Unwrap(WithoutGil([&] { return self.upkeep().Slabs(); }));
           })
      .def(
          "drop_slab",
          [](Database& self, std::uint32_t shard, const std::string& retention_class,
             Generation generation) {
            Check(WithoutGil(
                [&] { return self.upkeep().DropSlab(shard, retention_class, generation); }));
          },
          py::arg("shard"), py::arg("retention_class"), py::arg("generation"))
      .def(
          "expire",
          [](Database& self, std::optional<WallTime> as_if) {
            return Unwrap(
                WithoutGil([&] { return self.upkeep().Expire(as_if, PythonInterrupts); }));
          },
          py::arg("as_if_us"))
      .def("usage",
           [](const Database& self) {
             return Unwrap(WithoutGil([&] { return self.upkeep().Usage(); }));
           })
      .def("usage_by_structure",
           [](const Database& self) {
             return Unwrap(
                 WithoutGil([&] { return self.upkeep().UsageByStructure(PythonInterrupts); }));
           })
      .def("maintain", &Maintain, py::arg("as_if_us"))
      .def("trim", &Trim, py::arg("before_us"), py::arg("filter"), py::arg("dry_run"))
      .def("snapshot", &MakeSnapshot, py::arg("path"), py::arg("base"), py::arg("copy"));
}

}  // namespace topicdb::python
