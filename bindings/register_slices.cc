// Methods of Database for those who read it with many processes: slices, and the log by commits.
#include "register.h"
#include "topicdb/tail.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using OptionalTime = std::optional<std::int64_t>;
using Serials = std::map<std::uint32_t, std::uint64_t>;
// shard, retention_class, generation, after, until, start, end, messages, bytes: topicdb.Slice
using SliceTuple =
    std::tuple<std::uint32_t, std::string, std::uint32_t, std::uint64_t, std::uint64_t,
               OptionalTime, OptionalTime, std::uint64_t, std::uint64_t>;

SliceTuple TupleOf(const Slice& slice) {
  return {slice.slab.shard,  slice.retention_class, slice.slab.generation, slice.after, slice.until,
          slice.range.start, slice.range.end,       slice.messages,        slice.bytes};
}

Slice SliceOf(const SliceTuple& tuple) {
  Slice slice;
  std::tie(slice.slab.shard, slice.retention_class, slice.slab.generation, slice.after, slice.until,
           slice.range.start, slice.range.end, slice.messages, slice.bytes) = tuple;
  return slice;
}

std::vector<SliceTuple> Slices(const Database& self, const Filters& filters, OptionalTime start,
                               OptionalTime end, Serials after, Serials until,
                               std::uint64_t bytes_max) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const SliceOptions options{{start, end}, std::move(after), std::move(until), bytes_max};
  const std::vector<Slice> slices =
      Unwrap(WithoutGil([&] { return self.Slices(parsed, options); }));
  std::vector<SliceTuple> tuples;
  tuples.reserve(slices.size());
  for (const Slice& slice : slices) tuples.push_back(TupleOf(slice));
  return tuples;
}

py::object ScanSlices(const Database& self, const Filters& filters,
                      const std::vector<SliceTuple>& tuples) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  std::vector<Slice> slices;
  slices.reserve(tuples.size());
  for (const SliceTuple& tuple : tuples) slices.push_back(SliceOf(tuple));
  return WrapScan(Unwrap(WithoutGil([&] { return self.NewScan(parsed, slices); })));
}

py::object NewTail(const Database& self, const Filters& filters, Serials after, Serials until) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const TailOptions options{std::move(after), std::move(until)};
  return WrapTail(Unwrap(WithoutGil([&] { return self.NewTail(parsed, options); })));
}

py::tuple MeasureLog(const Database& self, std::uint32_t shard, const Filters& filters,
                     std::uint64_t after, std::optional<std::uint64_t> until, OptionalTime start,
                     std::size_t rows_max, std::size_t bytes_max, bool whole_blocks) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const CommitSpan span = Unwrap(WithoutGil([&] {
    return self.MeasureLog(shard, parsed, {after, until, {start, {}}, whole_blocks},
                           {rows_max, bytes_max}, &PythonInterrupts);
  }));
  return py::make_tuple(span.until, span.messages, span.bytes);
}

}  // namespace

std::vector<Filter> ParseFilters(const Filters& filters) {
  if (!filters.has_value()) return {Filter::Everything()};
  std::vector<Filter> parsed;
  for (const py::str& filter : *filters) parsed.push_back(ParseFilter(filter));
  return parsed;
}

void RegisterSlices(py::class_<Database>& type) {
  type.def("slices", &Slices, py::arg("filters"), py::arg("start"), py::arg("end"),
           py::arg("after"), py::arg("until"), py::arg("bytes_max"))
      .def("scan_slices", &ScanSlices, py::arg("filters"), py::arg("slices"))
      .def("tail", &NewTail, py::arg("filters"), py::arg("after"), py::arg("until"))
      .def("measure_log", &MeasureLog, py::arg("shard"), py::arg("filters"), py::arg("after"),
           py::arg("until"), py::arg("start"), py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("whole_blocks") = false);
}

}  // namespace topicdb::python
