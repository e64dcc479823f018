// One function for each file of bindings; module.cc calls them in this order.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "convert/errors.h"
#include "convert/results.h"
#include "convert/times.h"
#include "convert/typed_numbers.h"
#include "topicdb/arrow.h"
#include "topicdb/database.h"

namespace topicdb::python {

// Calls `call` without the GIL, and returns its result. `call` may take long, and must not use
// Python. REQUIRES: the GIL
template <typename Call>
auto WithoutGil(Call call) {
  const pybind11::gil_scoped_release release;
  return call();
}

// Throws ImportError if the processor lacks the instructions that RocksDB is built for.
void CheckProcessor();
// Each registers the classes and functions of one file.
void RegisterTopic(pybind11::module_& module);
void RegisterBatch(pybind11::module_& module);
void RegisterEnvelope(pybind11::module_& module);
void RegisterJob(pybind11::module_& module);
void RegisterPosition(pybind11::module_& module);
void RegisterQueue(pybind11::module_& module);
void RegisterScan(pybind11::module_& module);
void RegisterTail(pybind11::module_& module);
void RegisterTransaction(pybind11::module_& module);
void RegisterOptions(pybind11::module_& module);
void RegisterDatabase(pybind11::module_& module);
// Registers the methods of Database for jobs.
void RegisterJobsOf(pybind11::class_<Database>& type);
// Registers the methods of Database for reading with many processes.
void RegisterSlices(pybind11::class_<Database>& type);
// Register the methods of Database that wait for new messages: watches and subscriptions.
void RegisterStreamWatch(pybind11::module_& module, pybind11::class_<Database>& type);
void RegisterSubscribe(pybind11::module_& module, pybind11::class_<Database>& type);
// Registers the methods of Database for the life of the data: retention, trimming, copies.
void RegisterMaintenance(pybind11::class_<Database>& type);
void RegisterCopies(pybind11::module_& module);
void RegisterVerify(pybind11::module_& module);
void RegisterUpload(pybind11::module_& module);
// Only where the module has replication.
void RegisterSite(pybind11::module_& module);

// Throws TopicError if `text` is not a topic filter.
Filter ParseFilter(const pybind11::str& text);
using Filters = std::optional<std::vector<pybind11::str>>;
// Returns the filters, or one that matches every topic if `filters` is None. Throws TopicError.
std::vector<Filter> ParseFilters(const Filters& filters);
using ColumnNames = std::optional<std::vector<std::string>>;
// Returns the columns with these names, or all of them for None. Throws ValueError.
ArrowColumns ParseColumns(const ColumnNames& names);
// Returns a topicdb._core.Scan, whose batches have these columns as Arrow data.
// REQUIRES (WrapScan, WrapTail): the GIL
pybind11::object WrapScan(std::unique_ptr<Scan> scan, const ArrowColumns& columns = {});

// Returns a topicdb._core.Tail.
pybind11::object WrapTail(std::unique_ptr<Tail> tail);

// Returns how long to wait. `timeout_us` is in microseconds; None: forever.
inline std::optional<std::chrono::microseconds> Timeout(std::optional<std::int64_t> timeout_us) {
  if (!timeout_us.has_value()) return std::nullopt;
  return std::chrono::microseconds(*timeout_us);
}

// Returns whether Python wants a long read to stop (Ctrl-C). Takes the GIL.
bool PythonInterrupts();

}  // namespace topicdb::python
