#include "register.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

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

py::bytes BytesOf(const DatabaseId& id) {
  return py::bytes(reinterpret_cast<const char*>(id.data()), id.size());
}

// Returns the id that these bytes are. Throws ValueError if there are not 16 of them.
DatabaseId DatabaseIdOf(const py::bytes& bytes) {
  const auto text = static_cast<std::string_view>(bytes);
  DatabaseId id;
  if (text.size() != id.size()) {
    throw py::value_error("database: expected 16 bytes, got " + std::to_string(text.size()));
  }
  std::copy(text.begin(), text.end(), id.begin());
  return id;
}

// Returns a value as its stored form keeps it. Throws ValueError, which says what it needs, if that
// cannot keep it.
template <typename Value>
Value Stored(const Value& value, const char* needs) {
  Result<Value> stored = Value::Decode(value.Encode());
  if (!stored.ok()) throw py::value_error(needs);
  return std::move(stored).value();
}

// Makes the stream of an engine that is written in Python.
Stream NewStream(const py::bytes& database, std::uint32_t shard, RetentionClassId class_id,
                 const std::string& retention_class, Generation generation,
                 const std::string& structure, StreamId id) {
  if (id == kNoStream) throw py::value_error("id: expected at least 1, got 0");
  if (generation == Generation{}) throw py::value_error("generation: expected at least 1, got 0");
  return {DatabaseIdOf(database), {shard, class_id, generation}, id, retention_class, structure};
}

constexpr char kIteratorNeeds[] = "an iterator needs times from 0 on";

// Makes an iterator before the first message of a stream at or after `start`. `seen` is the last
// commit that the engine has seen; an iterator with kNoSerial does not say what it has given.
Iterator NewIterator(const Stream& stream, const py::str& filter, std::optional<std::int64_t> start,
                     std::optional<std::int64_t> end, Serial seen) {
  Iterator iterator;
  iterator.database = stream.database;
  iterator.slab = stream.slab;
  iterator.stream = stream.id;
  iterator.filter = ParseFilter(filter).text();
  iterator.position.timestamp = start.value_or(0);
  iterator.end = end;
  iterator.seen = seen;
  iterator.structure = stream.structure;
  return Stored(iterator, kIteratorNeeds);
}

// Returns the iterator that continues behind a message.
Iterator IteratorAfter(const Iterator& self, std::int64_t timestamp, Serial serial,
                       std::uint32_t row) {
  Iterator next = self;
  next.position = {Position::Kind::kAfterMessage, timestamp, serial, row, {}};
  return Stored(next, kIteratorNeeds);
}

// Returns the iterator as a read leaves it that has seen the commits up to `seen`. `exhausted` says
// that nothing of these which it wants is behind its position.
Iterator IteratorWithSeen(const Iterator& self, Serial seen, bool exhausted) {
  if (self.seen == kNoSerial || seen == kNoSerial) {
    throw py::value_error("seen: expected at least 1, also when the iterator was made");
  }
  Iterator next = self;
  next.seen = seen;
  next.hidden.clear();
  next.exhausted = exhausted;
  return next;
}

// Returns the place of the message that the iterator stands behind, if there is one.
std::optional<std::pair<Serial, std::uint32_t>> PlaceOf(const Iterator& self) {
  if (self.position.kind != Position::Kind::kAfterMessage) return std::nullopt;
  return std::pair(self.position.serial, self.position.index);
}

// How a scan in steps has read a class: its number, the generation that comes next, the newest one
// when the scan began, and the commit up to which the generations before the next have messages.
using ProgressParts = std::tuple<RetentionClassId, Generation, Generation, Serial>;
// A shard of a scan in steps: its number, the last commit that is part of the scan, its classes.
using ShardParts = std::tuple<std::uint32_t, Serial, std::vector<ProgressParts>>;
// The message that a scan in steps stands behind: the index of its class among those of the shard,
// its stream or kNoStream, timestamp, commit, and number in that.
using PlaceParts = std::tuple<std::uint32_t, StreamId, std::int64_t, Serial, std::uint32_t>;

// Makes the position in a scan of an engine that is written in Python.
ScanIterator NewScanIterator(const py::bytes& database, const Filters& filters, std::int64_t start,
                             std::optional<std::int64_t> end, const std::vector<ShardParts>& shards,
                             std::uint32_t in_shard, Serial counted,
                             const std::optional<PlaceParts>& place) {
  ScanIterator iterator;
  iterator.database = DatabaseIdOf(database);
  if (filters.has_value()) {
    if (filters->empty()) throw py::value_error("filters: expected at least one, or None");
    for (const Filter& filter : ParseFilters(filters)) iterator.filters.push_back(filter.text());
  }
  iterator.start = start;
  iterator.end = end;
  for (const auto& [number, until, classes] : shards) {
    ScanShard shard{number, until, {}};
    for (const auto& [id, next, last, read] : classes) {
      shard.classes.push_back({id, next, last, read});
    }
    iterator.shards.push_back(std::move(shard));
  }
  iterator.in_shard = in_shard;
  iterator.counted = counted;
  if (place.has_value()) {
    const auto& [in_class, stream, timestamp, serial, row] = *place;
    const Position position{Position::Kind::kAfterMessage, timestamp, serial, row, {}};
    iterator.place = ScanPlace{in_class, stream, position};
  }
  return Stored(iterator,
                "a scan in steps needs a shard, shards and classes by number, generations from 1 "
                "on, times from 0 on, in_shard up to the number of shards, and a place in one of "
                "the classes of the shard that it reads");
}

std::vector<ShardParts> ShardsOf(const ScanIterator& self) {
  std::vector<ShardParts> shards;
  for (const ScanShard& shard : self.shards) {
    std::vector<ProgressParts> classes;
    for (const ScanProgress& at : shard.classes) {
      classes.emplace_back(at.retention_class, at.next, at.last, at.read);
    }
    shards.emplace_back(shard.shard, shard.until, std::move(classes));
  }
  return shards;
}

// Returns the message that the scan stands behind, if it stands behind one.
std::optional<PlaceParts> PlaceOfScan(const ScanIterator& self) {
  if (!self.place.has_value()) return std::nullopt;
  const auto& [in_class, stream, position] = *self.place;
  if (position.kind != Position::Kind::kAfterMessage) return std::nullopt;
  return PlaceParts(in_class, stream, position.timestamp, position.serial, position.index);
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

// Makes what an engine that is written in Python knows of a slab.
SlabInfo NewSlab(std::uint32_t shard, RetentionClassId class_id, const std::string& retention_class,
                 Generation generation, const std::string& layout, bool read_only,
                 WallTime created_at, std::optional<WallTime> sealed_at, std::uint64_t messages,
                 std::uint64_t bytes, std::uint64_t streams,
                 std::optional<std::int64_t> first_timestamp,
                 std::optional<std::int64_t> last_timestamp, std::uint32_t keep_last) {
  return {{shard, class_id, generation},
          retention_class,
          Unwrap(LayoutNamed(layout)),
          read_only,
          created_at,
          sealed_at,
          messages,
          bytes,
          streams,
          first_timestamp,
          last_timestamp,
          keep_last};
}

void RegisterScanIterator(py::module_& module) {
  py::class_<ScanIterator> scan(module, "ScanIterator",
                                "A position in a scan in steps. Immutable; store it with bytes().");
  scan.def(py::init(&NewScanIterator), py::kw_only(), py::arg("database"), py::arg("filters"),
           py::arg("start"), py::arg("end"), py::arg("shards"), py::arg("in_shard") = 0,
           py::arg("counted") = 0, py::arg("place") = py::none())
      .def_property_readonly("database",
                             [](const ScanIterator& self) { return BytesOf(self.database); })
      .def_property_readonly("filters", &FiltersOf)
      .def_readonly("start", &ScanIterator::start)
      .def_readonly("end", &ScanIterator::end)
      .def_property_readonly("shards", &ShardsOf)
      .def_readonly("in_shard", &ScanIterator::in_shard)
      .def_readonly("counted", &ScanIterator::counted)
      .def_property_readonly("place", &PlaceOfScan)
      .def_property_readonly("serials", &SerialsOf)
      .def_property_readonly("at_end", &ScanIterator::at_end)
      .def("__repr__", &ReprScanIterator);
  DefineAsValue(scan);
}

void RegisterSlab(py::module_& module) {
  py::class_<SlabInfo> slab(module, "Slab", "What is known of a slab at one moment.");
  slab.def(py::init(&NewSlab), py::kw_only(), py::arg("shard"), py::arg("class_id"),
           py::arg("retention_class"), py::arg("generation"), py::arg("layout"),
           py::arg("read_only"), py::arg("created_at"), py::arg("sealed_at") = py::none(),
           py::arg("messages") = 0, py::arg("bytes") = 0, py::arg("streams") = 0,
           py::arg("first_timestamp") = py::none(), py::arg("last_timestamp") = py::none(),
           py::arg("keep_last") = 0)
      .def_property_readonly("shard", [](const SlabInfo& self) { return self.id.shard; })
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

}  // namespace

void RegisterPosition(py::module_& module) {
  py::class_<Stream> stream(module, "Stream",
                            "Topics of one structure in one slab; the unit of ordered reading.");
  stream
      .def(py::init(&NewStream), py::kw_only(), py::arg("database"), py::arg("shard"),
           py::arg("class_id"), py::arg("retention_class"), py::arg("generation"),
           py::arg("structure"), py::arg("id"))
      .def_property_readonly("database", [](const Stream& self) { return BytesOf(self.database); })
      .def_property_readonly("shard", [](const Stream& self) { return self.slab.shard; })
      .def_property_readonly("class_id",
                             [](const Stream& self) { return self.slab.retention_class; })
      .def_readonly("retention_class", &Stream::retention_class)
      .def_property_readonly("generation", [](const Stream& self) { return self.slab.generation; })
      .def_readonly("structure", &Stream::structure)
      .def_readonly("id", &Stream::id)
      .def("__repr__", &ReprStream);
  DefineAsValue(stream);

  py::class_<Iterator> iterator(module, "Iterator",
                                "A position in a stream. Immutable; store it with bytes().");
  iterator
      .def(py::init(&NewIterator), py::arg("stream"), py::arg("filter"), py::arg("start"),
           py::arg("end"), py::arg("seen") = 0)
      .def("after", &IteratorAfter, py::arg("timestamp"), py::arg("serial"), py::arg("row"))
      .def("with_seen", &IteratorWithSeen, py::arg("seen"), py::arg("exhausted"))
      .def_property_readonly("database",
                             [](const Iterator& self) { return BytesOf(self.database); })
      .def_property_readonly("class_id",
                             [](const Iterator& self) { return self.slab.retention_class; })
      .def_readonly("stream_id", &Iterator::stream)
      .def_property_readonly("place", &PlaceOf)
      .def_readonly("end", &Iterator::end)
      .def_readonly("seen", &Iterator::seen)
      .def_readonly("exhausted", &Iterator::exhausted)
      .def_readonly("structure", &Iterator::structure)
      .def_property_readonly("shard", [](const Iterator& self) { return self.slab.shard; })
      .def_property_readonly("generation",
                             [](const Iterator& self) { return self.slab.generation; })
      .def_readonly("filter", &Iterator::filter)
      .def_property_readonly("timestamp",
                             [](const Iterator& self) { return self.position.timestamp; })
      .def("__repr__", &ReprIterator);
  DefineAsValue(iterator);

  RegisterScanIterator(module);
  RegisterSlab(module);
}

}  // namespace topicdb::python
