// The methods of Database for reading with many processes: slices, and the log by commits.
#include "register.h"
#include "topicdb/database/parcel.h"
#include "topicdb/tail.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using OptionalTime = std::optional<std::int64_t>;
using Serials = std::map<std::uint32_t, Serial>;

std::vector<Slice> Slices(const Database& self, const Filters& filters, OptionalTime start,
                          OptionalTime end, Serials after, Serials until, std::uint64_t bytes_max) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const SliceOptions options{{start, end}, std::move(after), std::move(until), bytes_max};
  return Unwrap(WithoutGil([&] { return self.Slices(parsed, options); }));
}

py::object ScanSlices(const Database& self, const Filters& filters,
                      const std::vector<Slice>& slices, const ColumnNames& names) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const ArrowColumns columns = ParseColumns(names);
  return WrapScan(Unwrap(WithoutGil([&] {
                    return self.NewScan(parsed, slices, columns.NeedValues(), columns.NeedTopics());
                  })),
                  columns);
}

py::object NewTail(const Database& self, const Filters& filters, Serials after, Serials until,
                   std::vector<Iterator> given) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  const TailOptions options{std::move(after), std::move(until), std::move(given)};
  return WrapTail(Unwrap(WithoutGil([&] { return self.NewTail(parsed, options); })));
}

CommitSpan MeasureLog(const Database& self, std::uint32_t shard, const Filters& filters,
                      Serial after, std::optional<Serial> until, OptionalTime start,
                      std::size_t rows_max, std::size_t bytes_max, bool whole_blocks) {
  const std::vector<Filter> parsed = ParseFilters(filters);
  return Unwrap(WithoutGil([&] {
    return self.MeasureLog(shard, parsed, {after, until, {start, {}}, whole_blocks},
                           {rows_max, bytes_max}, &PythonInterrupts);
  }));
}

}  // namespace

std::vector<Filter> ParseFilters(const Filters& filters) {
  if (!filters.has_value()) return {Filter::Everything()};
  std::vector<Filter> parsed;
  for (const py::str& filter : *filters) parsed.push_back(ParseFilter(filter));
  return parsed;
}

void RegisterSlices(py::class_<Database>& type) {
  type.attr("parcels") = py::make_tuple(kParcelVersion);  // topicdb/engine.py
  type.def("slices", &Slices, py::arg("filters"), py::arg("start"), py::arg("end"),
           py::arg("after"), py::arg("until"), py::arg("bytes_max"))
      .def("scan_slices", &ScanSlices, py::arg("filters"), py::arg("slices"),
           py::arg("columns") = py::none())
      .def("tail", &NewTail, py::arg("filters"), py::arg("after"), py::arg("until"),
           py::arg("given") = std::vector<Iterator>())
      .def("measure_log", &MeasureLog, py::arg("shard"), py::arg("filters"), py::arg("after"),
           py::arg("until"), py::arg("start"), py::arg("rows_max"), py::arg("bytes_max"),
           py::arg("whole_blocks") = false);
}

}  // namespace topicdb::python
