// Methods of Database for the life of the data: retention, generations, trimming, copies.
#include "register.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using OptionalText = std::optional<std::string>;
using UsageTuple = std::tuple<SlabInfo, std::uint64_t, std::uint64_t>;

RetentionTuples Retention(const Database& self) {
  RetentionTuples tuples;
  for (const RetentionClass& item : Unwrap(WithoutGil([&] { return self.Retention(); }))) {
    tuples.emplace_back(item.filter, item.age_us, item.bytes_max, item.rotate_us, item.keep_last);
  }
  return tuples;
}

std::vector<UsageTuple> Usage(const Database& self) {
  std::vector<UsageTuple> tuples;
  for (SlabUsage& usage : Unwrap(WithoutGil([&] { return self.Usage(); }))) {
    tuples.emplace_back(std::move(usage.slab), usage.disk_bytes, usage.garbage_bytes);
  }
  return tuples;
}

py::list UsageByStructure(const Database& self) {
  py::list structures;
  for (const StructureUsage& one :
       Unwrap(WithoutGil([&] { return self.UsageByStructure(PythonInterrupts); }))) {
    structures.append(py::make_tuple(one.retention_class, one.structure, one.messages, one.bytes,
                                     one.disk_bytes));
  }
  return structures;
}

const char* NameOf(SlabDropReason reason) {
  switch (reason) {
    case SlabDropReason::kAge:
      return "age";
    case SlabDropReason::kBytes:
      return "bytes";
    case SlabDropReason::kQuota:
      return "quota";
    case SlabDropReason::kKeepLast:
      return "keep_last";
  }
  return "?";
}

py::tuple MaintenanceTuple(const Maintenance& done) {
  py::list dropped;
  for (const DroppedSlab& item : done.dropped) {
    dropped.append(py::make_tuple(item.usage.slab, item.usage.disk_bytes, NameOf(item.reason)));
  }
  return py::make_tuple(done.rotated, dropped, done.kept);
}

py::tuple Maintain(Database& self, std::optional<std::int64_t> as_if_us) {
  return MaintenanceTuple(
      Unwrap(WithoutGil([&] { return self.Maintain(as_if_us, PythonInterrupts); })));
}

py::tuple SetRetention(Database& self, const RetentionTuples& tuples, bool dry_run) {
  const std::vector<RetentionClass> classes = ParseRetention(tuples);
  return MaintenanceTuple(Unwrap(WithoutGil([&] { return self.SetRetention(classes, dry_run); })));
}

py::tuple Trim(Database& self, std::int64_t before_us, const std::optional<py::str>& filter,
               bool dry_run) {
  std::optional<Filter> parsed;
  if (filter.has_value()) parsed = ParseFilter(*filter);
  const TrimCount count =
      Unwrap(WithoutGil([&] { return self.Trim(before_us, parsed, dry_run, &PythonInterrupts); }));
  return py::make_tuple(count.slabs, count.messages);
}

py::tuple CountsTuple(const CopyCounts& counts) {
  return py::make_tuple(counts.files, counts.bytes, counts.copied_bytes);
}

py::tuple MakeSnapshot(Database& self, const std::string& path, const OptionalText& base,
                       bool copy) {
  const SnapshotInfo info =
      Unwrap(WithoutGil([&] { return self.MakeSnapshot(path, {base, copy}, &PythonInterrupts); }));
  py::dict serials;
  for (const auto& [shard, serial] : info.serials) serials[py::int_(shard)] = serial;
  return py::make_tuple(serials, CountsTuple(info.counts));
}

py::tuple Restore(const std::string& source, const std::string& path, bool replace,
                  const OptionalText& base, bool copy) {
  return CountsTuple(Unwrap(WithoutGil(
      [&] { return Database::Restore(source, path, replace, {base, copy}, &PythonInterrupts); })));
}

}  // namespace

std::vector<RetentionClass> ParseRetention(const RetentionTuples& tuples) {
  std::vector<RetentionClass> classes;
  for (const auto& [filter, age_us, bytes_max, rotate_us, keep_last] : tuples) {
    classes.push_back({filter, age_us, bytes_max, rotate_us, keep_last});
  }
  return classes;
}

void RegisterCopies(py::module_& module) {
  module.def("restore", &Restore, py::arg("source"), py::arg("path"), py::arg("replace"),
             py::arg("base"), py::arg("copy"));
}

void RegisterMaintenance(py::class_<Database>& type) {
  type.def("retention", &Retention)
      .def("set_retention", &SetRetention, py::arg("classes"), py::arg("dry_run") = false)
      .def(
          "rotate",
          [](Database& self, const OptionalText& retention_class, bool resets_clock) {
            Check(WithoutGil([&] { return self.Rotate(retention_class, resets_clock); }));
          },
          py::arg("retention_class"), py::arg("resets_clock") = false)
      .def("slabs",
           [](const Database& self) { return Unwrap(WithoutGil([&] { return self.Slabs(); })); })
      .def(
          "drop_slab",
          [](Database& self, std::uint32_t shard, const std::string& retention_class,
             std::uint32_t generation) {
            Check(WithoutGil([&] { return self.DropSlab(shard, retention_class, generation); }));
          },
          py::arg("shard"), py::arg("retention_class"), py::arg("generation"))
      .def(
          "expire",
          [](Database& self, std::optional<std::int64_t> as_if_us) {
            return Unwrap(WithoutGil([&] { return self.Expire(as_if_us, PythonInterrupts); }));
          },
          py::arg("as_if_us"))
      .def("usage", &Usage)
      .def("usage_by_structure", &UsageByStructure)
      .def("maintain", &Maintain, py::arg("as_if_us"))
      .def("trim", &Trim, py::arg("before_us"), py::arg("filter"), py::arg("dry_run"))
      .def("snapshot", &MakeSnapshot, py::arg("path"), py::arg("base"), py::arg("copy"));
}

}  // namespace topicdb::python
