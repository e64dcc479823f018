#include "register.h"

#include <functional>
#include <optional>
#include <tuple>

namespace topicdb::python {

namespace py = pybind11;

namespace {

// Defines a class whose values compare, hash, pickle and encode by their bytes.
template <typename Value>
void DefineAsValue(py::class_<Value>& type) {
  type.def("__bytes__", [](const Value& self) { return py::bytes(self.Encode()); })
      .def_static(
          "from_bytes",
          [](const py::bytes& data) { return Unwrap(Value::Decode(std::string_view(data))); },
          py::arg("data"), py::pos_only(),
          "What bytes() of one gave. CorruptionError if it is not.")
      .def("__eq__",
           [](const Value& self, const py::object& other) {
             return py::isinstance<Value>(other) && self == other.cast<const Value&>();
           })
      .def("__hash__", [](const Value& self) { return std::hash<std::string>()(self.Encode()); })
      .def(py::pickle(
          [](const Value& self) { return py::bytes(self.Encode()); },
          [](const py::bytes& data) { return Unwrap(Value::Decode(std::string_view(data))); }));
  type.attr("__module__") = "topicdb";
}

std::string ReprStream(const Stream& self) {
  return "<topicdb.Stream '" + self.structure + "' shard=" + std::to_string(self.slab.shard) +
         " retention_class='" + self.retention_class +
         "' generation=" + std::to_string(self.slab.generation.value()) + ">";
}

std::string ReprIterator(const Iterator& self) {
  return "<topicdb.Iterator '" + self.filter + "' shard=" + std::to_string(self.slab.shard) +
         " generation=" + std::to_string(self.slab.generation.value()) +
         " timestamp=" + std::to_string(self.position.timestamp) + ">";
}

py::object FiltersOf(const ScanIterator& self) {
  return self.filters.empty() ? py::object(py::none()) : py::cast(self.filters);
}

py::dict SerialsOf(const ScanIterator& self) {
  py::dict serials;
  for (const ScanShard& shard : self.shards) serials[py::int_(shard.shard)] = shard.until;
  return serials;
}

std::string ReprScanIterator(const ScanIterator& self) {
  const std::string where =
      self.at_end() ? "at_end" : "shard=" + std::to_string(self.shards[self.in_shard].shard);
  return "<topicdb.ScanIterator " + py::repr(FiltersOf(self)).cast<std::string>() + " " + where +
         ">";
}

// All that is known of a slab, for pickle and for other processes.
using SlabState =
    std::tuple<std::uint32_t, RetentionClassId, Generation, std::string, int, bool, WallTime,
               std::optional<WallTime>, std::uint64_t, std::uint64_t, std::uint64_t,
               std::optional<std::int64_t>, std::optional<std::int64_t>, std::uint32_t>;

SlabState StateOf(const SlabInfo& slab) {
  return {slab.id.shard,
          slab.id.retention_class,
          slab.id.generation,
          slab.retention_class,
          static_cast<int>(slab.layout),
          slab.read_only,
          slab.created_at,
          slab.sealed_at,
          slab.messages,
          slab.bytes,
          slab.streams,
          slab.first_timestamp,
          slab.last_timestamp,
          slab.keep_last};
}

SlabInfo SlabOf(const SlabState& state) {
  SlabInfo slab;
  int layout = 0;
  std::tie(slab.id.shard, slab.id.retention_class, slab.id.generation, slab.retention_class, layout,
           slab.read_only, slab.created_at, slab.sealed_at, slab.messages, slab.bytes, slab.streams,
           slab.first_timestamp, slab.last_timestamp, slab.keep_last) = state;
  slab.layout = static_cast<LayoutKind>(layout);
  if (slab.layout != LayoutKind::kSkipstream && slab.layout != LayoutKind::kColumnar) {
    throw py::value_error("no state of a slab: layout " + std::to_string(layout));
  }
  return slab;
}

}  // namespace

void RegisterPosition(py::module_& module) {
  py::class_<Stream> stream(module, "Stream",
                            "Topics of one structure in one slab; the unit of ordered reading.");
  stream.def_property_readonly("shard", [](const Stream& self) { return self.slab.shard; })
      .def_readonly("retention_class", &Stream::retention_class)
      .def_property_readonly("generation", [](const Stream& self) { return self.slab.generation; })
      .def_readonly("structure", &Stream::structure)
      .def_readonly("id", &Stream::id)
      .def("__repr__", &ReprStream);
  DefineAsValue(stream);

  py::class_<Iterator> iterator(module, "Iterator",
                                "A position in a stream. Immutable; store it with bytes().");
  iterator.def_property_readonly("shard", [](const Iterator& self) { return self.slab.shard; })
      .def_property_readonly("generation",
                             [](const Iterator& self) { return self.slab.generation; })
      .def_readonly("filter", &Iterator::filter)
      .def_property_readonly("timestamp",
                             [](const Iterator& self) { return self.position.timestamp; })
      .def("__repr__", &ReprIterator);
  DefineAsValue(iterator);

  py::class_<ScanIterator> scan(module, "ScanIterator",
                                "A position in a scan in steps. Immutable; store it with bytes().");
  scan.def_property_readonly("filters", &FiltersOf)
      .def_property_readonly("serials", &SerialsOf)
      .def_property_readonly("at_end", &ScanIterator::at_end)
      .def("__repr__", &ReprScanIterator);
  DefineAsValue(scan);

  py::class_<SlabInfo> slab(module, "Slab", "What is known of a slab at one moment.");
  slab.def_property_readonly("shard", [](const SlabInfo& self) { return self.id.shard; })
      .def_readonly("retention_class", &SlabInfo::retention_class)
      .def_property_readonly("generation", [](const SlabInfo& self) { return self.id.generation; })
      .def_property_readonly("layout", [](const SlabInfo& self) { return NameOf(self.layout); })
      .def_readonly("read_only", &SlabInfo::read_only)
      .def_readonly("created_at", &SlabInfo::created_at)
      .def_readonly("sealed_at", &SlabInfo::sealed_at)
      .def_readonly("messages", &SlabInfo::messages)
      .def_readonly("bytes", &SlabInfo::bytes)
      .def_readonly("streams", &SlabInfo::streams)
      .def_readonly("first_timestamp", &SlabInfo::first_timestamp)
      .def_readonly("last_timestamp", &SlabInfo::last_timestamp)
      .def_readonly("keep_last", &SlabInfo::keep_last)
      .def("__eq__",
           [](const SlabInfo& self, const py::object& other) {
             return py::isinstance<SlabInfo>(other) && self == other.cast<const SlabInfo&>();
           })
      .def("__hash__",
           [](const SlabInfo& self) {
             return py::hash(
                 py::make_tuple(self.id.shard, self.id.retention_class, self.id.generation));
           })
      .def(py::pickle(&StateOf, &SlabOf))
      .def("__repr__", [](const SlabInfo& self) {
        return "<topicdb.Slab shard=" + std::to_string(self.id.shard) + " retention_class='" +
               self.retention_class + "' generation=" + std::to_string(self.id.generation.value()) +
               " messages=" + std::to_string(self.messages) + ">";
      });
  slab.attr("__module__") = "topicdb";
}

}  // namespace topicdb::python
