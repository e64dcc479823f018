#include "convert/arrow_capsules.h"
#include "convert/durability.h"
#include "convert/mailbox.h"
#include "convert/messages.h"
#include "convert/numbers.h"
#include "register.h"
#include "topicdb/job.h"
#include "topicdb/tail.h"

#include <algorithm>
#include <tuple>
#include <variant>

// Every bound method converts its arguments with the GIL, releases the GIL around the call of the
// core, which may wait for a disk or for another thread, and then converts the result.
namespace topicdb::python {

namespace py = pybind11;

namespace {

// One filter, several filters, or None for every topic.
using FilterOrFilters = std::variant<py::str, Filters>;

std::vector<Filter> ParseAny(const FilterOrFilters& filters) {
  if (const auto* const one = std::get_if<py::str>(&filters)) return {ParseFilter(*one)};
  return ParseFilters(std::get<Filters>(filters));
}

using OptionalText = std::optional<std::string>;
using OptionalNumber = std::optional<std::int64_t>;
using OptionalTime = std::optional<std::int64_t>;

py::dict AsDict(const Schema& schema) {
  py::dict retention;
  for (const RetentionClass& item : schema.retention) {
    retention[py::str(item.filter)] =
        item.age == item.age.zero() ? py::object(py::none()) : py::cast(item.age);
  }
  py::dict result;
  result["shards"] = schema.shards;
  result["shard_by"] = NameOf(schema.shard_by);
  result["layout"] = NameOf(schema.layout);
  result["timestamp_bytes"] = schema.timestamp_bytes;
  result["structures"] = schema.structures;
  result["thresholds"] = schema.thresholds;
  result["retention"] = retention;
  return result;
}

py::dict ReadSchema(const std::string& path) {
  return AsDict(Unwrap(WithoutGil([&] { return Database::ReadSchema(path); })));
}

void AddCounters(const ReadCounters& counters, py::dict* result) {
  (*result)["blocks"] = counters.blocks;
  (*result)["blocks_skipped_by_time"] = counters.blocks_skipped_by_time;
  (*result)["blocks_skipped_by_stream"] = counters.blocks_skipped_by_stream;
  (*result)["blocks_skipped_by_word"] = counters.blocks_skipped_by_word;
  (*result)["pages"] = counters.pages;
  (*result)["pages_skipped_by_time"] = counters.pages_skipped_by_time;
  (*result)["pages_skipped_by_topic"] = counters.pages_skipped_by_topic;
  (*result)["pages_read"] = counters.pages_read;
  (*result)["bytes_read"] = counters.bytes_read;
  (*result)["rows_examined"] = counters.rows_examined;
  (*result)["rows_matched"] = counters.rows_matched;
  (*result)["rows_spilled"] = counters.rows_spilled;
  (*result)["bytes_spilled"] = counters.bytes_spilled;
}

// Returns the id of an append, or an empty text if there is none. Throws ValueError if it is empty.
std::string ParseId(const std::optional<py::str>& id) {
  if (!id.has_value()) return {};
  std::string text = TopicText(*id, "id");
  if (text.empty()) Raise(InvalidArgument("id: it is empty; None is for an append without one"));
  return text;
}

// Stores messages: `Copies` is RowCopies or ArrowCopies.
template <typename Copies, typename Source>
Receipt Append(Database& self, const Source& source, const OptionalText& durability, bool escapes,
               const std::optional<py::str>& id, const py::object& key) {
  const Copies copies(source, escapes);
  const KeyCopies given(key);
  const MessageKeys keys = copies.KeysWith(given);
  const auto wanted = ParseDurability(durability);
  const std::string name = ParseId(id);
  return Unwrap(WithoutGil([&] { return self.Append(copies.messages(), wanted, name, keys); }));
}

std::optional<Receipt> FindAppend(const Database& self, const py::str& id) {
  const std::string name = ParseId(id);
  return Unwrap(WithoutGil([&] { return self.FindAppend(name); }));
}

// Queues copies of the messages. The outcome comes to `completions`, with `token`.
template <typename Copies, typename Source>
void AppendAsync(Database& self, const Source& source, const OptionalText& durability,
                 std::shared_ptr<Completions> completions, std::uint64_t token, bool escapes,
                 const std::optional<py::str>& id, const py::object& key) {
  const auto copies = std::make_shared<const Copies>(source, escapes);
  const KeyCopies given(key);
  const MessageKeys keys = copies->KeysWith(given);
  const auto wanted = ParseDurability(durability);
  const std::string name = ParseId(id);
  auto done = [completions = std::move(completions), token](Result<Receipt> outcome) {
    completions->Add({token, std::move(outcome), {}});
  };
  Check(WithoutGil([&] {
    return self.AppendAsync(copies->messages(), copies, wanted, std::move(done), name, keys);
  }));
}

Receipt Delete(Database& self, const py::str& filter, OptionalTime start, OptionalTime end,
               const OptionalText& durability) {
  const Filter parsed = ParseFilter(filter);
  const auto wanted = ParseDurability(durability);
  return Unwrap(WithoutGil([&] { return self.Delete(parsed, {start, end}, wanted); }));
}

std::unique_ptr<Transaction> Begin(Database& self, std::int64_t shard, OptionalNumber generation,
                                   const OptionalText& durability) {
  TransactionOptions options;
  options.shard = Unsigned(shard, "shard", &InvalidArgument);
  if (generation) {
    options.generation = Generation{Unsigned(*generation, "generation", &InvalidArgument)};
  }
  options.durability = ParseDurability(durability);
  return Unwrap(WithoutGil([&] { return self.Begin(options); }));
}

ScanOrder ParseScanOrder(const std::string& order) {
  if (order == "stream") return ScanOrder::kStream;
  if (order == "time") return ScanOrder::kTime;
  if (order == "none") return ScanOrder::kNone;
  throw py::value_error("order: expected 'stream', 'time' or 'none', got '" + order + "'");
}

py::object NewScan(const Database& self, const FilterOrFilters& filter, OptionalTime start,
                   OptionalTime end, const std::string& order,
                   std::optional<std::vector<Stream>> streams, const ColumnNames& names) {
  const std::vector<Filter> parsed = ParseAny(filter);
  const ArrowColumns columns = ParseColumns(names);
  const ScanOptions options{
      {start, end}, ParseScanOrder(order), std::move(streams), columns.NeedValues()};
  return WrapScan(Unwrap(WithoutGil([&] { return self.NewScan(parsed, options); })), columns);
}

py::object Last(const Database& self, const FilterOrFilters& filter, OptionalTime start,
                OptionalTime end) {
  const std::vector<Filter> parsed = ParseAny(filter);
  return WrapScan(Unwrap(WithoutGil([&] { return self.Last(parsed, {start, end}); })));
}

// Returns each stream once, in the order in which one filter alone would give them.
std::vector<Stream> Streams(const Database& self, const FilterOrFilters& filters,
                            OptionalTime start, OptionalTime end,
                            std::optional<std::int64_t> generation_min) {
  const Generation first{Unsigned(generation_min.value_or(0), "generation_min", &InvalidArgument)};
  std::vector<Stream> streams;
  const std::vector<Filter> parsed = ParseAny(filters);
  for (const Filter& filter : parsed) {
    const auto more = Unwrap(WithoutGil([&] { return self.Streams(filter, {start, end}, first); }));
    streams.insert(streams.end(), more.begin(), more.end());
  }
  if (parsed.size() < 2) return streams;
  const auto place = [](const Stream& stream) {
    return std::tie(stream.slab, stream.structure, stream.id);
  };
  std::sort(streams.begin(), streams.end(),
            [&](const Stream& a, const Stream& b) { return place(a) < place(b); });
  const auto same = [&](const Stream& a, const Stream& b) { return place(a) == place(b); };
  streams.erase(std::unique(streams.begin(), streams.end(), same), streams.end());
  return streams;
}

MissingReasons MissingShards(const Database& self, const FilterOrFilters& filters) {
  const std::vector<Filter> parsed = ParseAny(filters);
  return Unwrap(WithoutGil([&] { return self.MissingShards(parsed); }));
}

// Returns `self` once its reads see these commits, or without any, what was acknowledged before.
py::object Seeing(const py::object& self,
                  const std::optional<std::map<std::uint32_t, Serial>>& serials,
                  std::chrono::microseconds timeout) {
  const auto& database = self.cast<const Database&>();
  Check(WithoutGil([&] {
    return serials.has_value() ? database.AwaitCommits(*serials, timeout, &PythonInterrupts)
                               : database.AwaitAcknowledged(timeout);
  }));
  return self;
}

Iterator NewIterator(const Database& self, const Stream& stream, const py::str& filter,
                     OptionalTime start, OptionalTime end) {
  const Filter parsed = ParseFilter(filter);
  return Unwrap(WithoutGil([&] { return self.NewIterator(stream, parsed, {start, end}); }));
}

ScanIterator NewScanIterator(const Database& self, const FilterOrFilters& filter,
                             OptionalTime start, OptionalTime end) {
  const std::vector<Filter> parsed = ParseAny(filter);
  return Unwrap(WithoutGil([&] { return self.NewScanIterator(parsed, {start, end}); }));
}

py::dict Explain(const Database& self, const FilterOrFilters& filter, OptionalTime start,
                 OptionalTime end) {
  const std::vector<Filter> parsed = ParseAny(filter);
  const Explanation found =
      Unwrap(WithoutGil([&] { return self.Explain(parsed, {start, end}, &PythonInterrupts); }));
  py::dict result;
  result["slabs"] = found.slabs;
  result["streams"] = found.streams;
  AddCounters(found.counters, &result);
  return result;
}

std::vector<MessageGroup> Summarize(const Database& self, const FilterOrFilters& filter,
                                    OptionalTime start, OptionalTime end, OptionalNumber levels,
                                    OptionalNumber span, std::int64_t origin) {
  const std::vector<Filter> parsed = ParseAny(filter);
  SummaryOptions options;
  options.topic_levels =
      levels ? Unsigned(*levels, "topic_levels", &InvalidArgument) : SummaryOptions::kAllLevels;
  options.span = span;
  options.span_origin = origin;
  return Unwrap(
      WithoutGil([&] { return self.Summarize(parsed, {start, end}, options, &PythonInterrupts); }));
}

Page Next(const Database& self, const Iterator& iterator, std::size_t rows_max,
          std::size_t bytes_max) {
  return Unwrap(
      WithoutGil([&] { return self.Next(iterator, {rows_max, bytes_max}, &PythonInterrupts); }));
}

ScanPage NextOfScan(const Database& self, const ScanIterator& iterator, std::size_t rows_max,
                    std::size_t bytes_max) {
  return Unwrap(
      WithoutGil([&] { return self.Next(iterator, {rows_max, bytes_max}, &PythonInterrupts); }));
}

py::dict StatsOf(const Database& self) {
  const Stats stats = Unwrap(WithoutGil([&] { return self.GetStats(); }));
  py::list shards;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t streams = 0;
  std::uint64_t disk_bytes = 0;
  for (const ShardStats& shard : stats.shards) {
    py::dict item;
    item["shard"] = shard.shard;
    item["serial"] = shard.serial;
    item["clock"] = shard.assigned_timestamp;
    item["clock_ahead"] = shard.clock_ahead;
    item["clock_held"] = shard.clock_held;
    item["messages"] = shard.messages;
    item["bytes"] = shard.bytes;
    item["streams"] = shard.streams;
    item["slabs"] = shard.slabs;
    item["disk_bytes"] = shard.disk_bytes;
    item["memory_bytes"] = shard.memory_bytes;
    item["structure_bytes"] = shard.structure_bytes;
    item["fresh_blocks"] = shard.fresh_blocks;
    item["fresh_bytes"] = shard.fresh_bytes;
    item["sealing_error"] = shard.sealing_error;
    item["is_sealing"] = shard.is_sealing;
    item["sealed_bytes"] = shard.sealed_bytes;
    item["resealed_bytes"] = shard.resealed_bytes;
    py::dict reads;
    AddCounters(shard.reads, &reads);
    item["reads"] = reads;
    shards.append(item);
    messages += shard.messages;
    bytes += shard.bytes;
    streams += shard.streams;
    disk_bytes += shard.disk_bytes;
  }
  py::dict result;
  result["messages"] = messages;
  result["bytes"] = bytes;
  result["streams"] = streams;
  result["disk_bytes"] = disk_bytes;
  result["cache_bytes"] = stats.cache_bytes;
  py::dict maintenance;
  maintenance["runs"] = stats.maintenance.runs;
  maintenance["last_run"] = stats.maintenance.last_run.value_or(WallTime());
  maintenance["rotated"] = stats.maintenance.rotated;
  maintenance["dropped_slabs"] = stats.maintenance.dropped_slabs;
  maintenance["dropped_messages"] = stats.maintenance.dropped_messages;
  maintenance["kept_messages"] = stats.maintenance.kept_messages;
  maintenance["dropped_bytes"] = stats.maintenance.dropped_bytes;
  maintenance["error"] = stats.maintenance.error;
  result["maintenance"] = maintenance;
  result["shards"] = shards;
  result["missing_shards"] = stats.missing;
  return result;
}

}  // namespace

void RegisterDatabase(py::module_& module) {
  module.attr("FORMAT_VERSION") = kFormatVersion;
  module.attr("ROCKSDB_VERSION") = RocksDbVersion();
  module.def("read_schema", &ReadSchema, py::arg("path"));
  py::class_<Database> type(module, "Database", "An open database.",
                            py::release_gil_before_calling_cpp_dtor());
  type.attr("reads_columns") = py::make_tuple("scan", "scan_slices");  // topicdb/engine.py
  type.def_static(
          "open",
          [](const std::string& path, const OpenOptions& options) {
            return Unwrap(WithoutGil([&] { return Database::Open(path, options); }));
          },
          py::arg("path"), py::arg("options"))
      .def_property_readonly("path", &Database::path)
      .def_property_readonly("schema", [](const Database& self) { return AsDict(self.schema()); })
      .def_property_readonly("closed", &Database::closed)
      .def_property_readonly("clock_ahead_us", &Database::clock_ahead)
      .def("append_rows", &Append<RowCopies, py::iterable>, py::arg("rows"), py::arg("durability"),
           py::arg("escapes") = false, py::arg("id") = py::none(), py::arg("key") = py::none())
      .def("append_arrow", &Append<ArrowCopies, py::object>, py::arg("stream"),
           py::arg("durability"), py::arg("escapes") = false, py::arg("id") = py::none(),
           py::arg("key") = py::none())
      .def("find_append", &FindAppend, py::arg("id"))
      .def("append_rows_async", &AppendAsync<RowCopies, py::iterable>, py::arg("rows"),
           py::arg("durability"), py::arg("completions"), py::arg("token"),
           py::arg("escapes") = false, py::arg("id") = py::none(), py::arg("key") = py::none())
      .def("append_arrow_async", &AppendAsync<ArrowCopies, py::object>, py::arg("stream"),
           py::arg("durability"), py::arg("completions"), py::arg("token"),
           py::arg("escapes") = false, py::arg("id") = py::none(), py::arg("key") = py::none())
      .def("delete", &Delete, py::arg("filter"), py::arg("start"), py::arg("end"),
           py::arg("durability"))
      .def("begin", &Begin, py::arg("shard"), py::arg("generation"), py::arg("durability"))
      .def("scan", &NewScan, py::arg("filter"), py::arg("start"), py::arg("end"), py::arg("order"),
           py::arg("streams"), py::arg("columns") = py::none())
      .def("last", &Last, py::arg("filter"), py::arg("start"), py::arg("end"))
      .def("streams", &Streams, py::arg("filter"), py::arg("start"), py::arg("end"),
           py::arg("generation_min"))
      .def("iterator", &NewIterator, py::arg("stream"), py::arg("filter"), py::arg("start"),
           py::arg("end"))
      .def("explain", &Explain, py::arg("filter"), py::arg("start"), py::arg("end"))
      .def("summarize", &Summarize, py::arg("filter"), py::arg("start"), py::arg("end"),
           py::arg("topic_levels"), py::arg("span"), py::arg("origin"))
      .def("next", &Next, py::arg("iterator"), py::arg("rows_max"), py::arg("bytes_max"))
      .def("scan_iterator", &NewScanIterator, py::arg("filter"), py::arg("start"), py::arg("end"))
      .def("next_of_scan", &NextOfScan, py::arg("iterator"), py::arg("rows_max"),
           py::arg("bytes_max"))
      .def("missing_shards", &MissingShards, py::arg("filters"))
      .def("partial", &Database::Partial)
      .def("seeing", &Seeing, py::arg("serials"), py::arg("timeout_us"))
      .def("stats", &StatsOf)
      .def("refresh", [](Database& self) { Check(WithoutGil([&] { return self.Refresh(); })); })
      .def("flush", [](Database& self) { Check(WithoutGil([&] { return self.Flush(); })); })
      .def("close", [](Database& self) { Check(WithoutGil([&] { return self.Close(); })); });
  RegisterSlices(type);
  RegisterJobsOf(type);
  RegisterMaintenance(type);
  RegisterStreamWatch(module, type);
  RegisterSubscribe(module, type);
}

}  // namespace topicdb::python
