#include <pybind11/functional.h>

#include <deque>

#include "convert/durability.h"
#include "register.h"
#include "topicdb/queue.h"
#include "topicdb/queue_inspector.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // first number, count

// A Python callable that C++ may call, copy and destroy without the GIL. Thread-safe.
class Callable {
 public:
  explicit Callable(py::object function)
      : function_(new py::object(std::move(function)), [](const py::object* held) {
          const py::gil_scoped_acquire acquire;
          delete held;
        }) {}

  // Returns the truth value of what the function returns. If it raises, reports that on stderr and
  // returns false.
  template <typename... Arguments>
  bool operator()(Arguments&&... arguments) const {
    const py::gil_scoped_acquire acquire;
    try {
      return py::bool_((*function_)(std::forward<Arguments>(arguments)...));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(*function_);
      return false;
    }
  }

 private:
  std::shared_ptr<const py::object> function_;
};

// Keeps the items of an append. Bytes objects cannot change, so it only holds them. It copies other
// items. REQUIRES (constructor, destructor): the GIL
class HeldItems {
 public:
  explicit HeldItems(const py::object& items) {
    if (PyBytes_Check(items.ptr()) != 0 || PyUnicode_Check(items.ptr()) != 0 ||
        PyByteArray_Check(items.ptr()) != 0 || PyMemoryView_Check(items.ptr()) != 0) {
      throw py::type_error("items: expected a list of bytes, got one " +
                           std::string(Py_TYPE(items.ptr())->tp_name) + "; write [item]");
    }
    // Makes a tuple of its own, since another thread may change the caller's list.
    list_ = py::reinterpret_steal<py::object>(PySequence_Tuple(items.ptr()));
    if (!list_) throw py::error_already_set();
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(list_.ptr()));
    views_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      Add(PyTuple_GET_ITEM(list_.ptr(), static_cast<Py_ssize_t>(i)), i);
    }
  }
  std::span<const std::string_view> views() const { return views_; }

 private:
  void Add(PyObject* item, std::size_t number) {
    if (PyBytes_CheckExact(item) != 0) {
      views_.emplace_back(PyBytes_AS_STRING(item),
                          static_cast<std::size_t>(PyBytes_GET_SIZE(item)));
      return;
    }
    Py_buffer buffer;
    if (PyObject_CheckBuffer(item) == 0 || PyObject_GetBuffer(item, &buffer, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      throw py::type_error("item " + std::to_string(number) + " is " + Py_TYPE(item)->tp_name +
                           "; items must be bytes or like bytes; nothing was appended");
    }
    copies_.emplace_back(static_cast<const char*>(buffer.buf),
                         static_cast<std::size_t>(buffer.len));
    PyBuffer_Release(&buffer);
    views_.emplace_back(copies_.back());
  }

  py::object list_;
  std::deque<std::string> copies_;
  std::vector<std::string_view> views_;
};

std::vector<SequenceRange> ToRanges(const Ranges& ranges) {
  std::vector<SequenceRange> result;
  result.reserve(ranges.size());
  for (const auto& [first, count] : ranges) result.push_back({first, count});
  return result;
}

template <typename Enum>
Enum Parse(const std::string& text, const char* option,
           std::initializer_list<std::pair<const char*, Enum>> words) {
  std::string expected;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    expected += (expected.empty() ? "'" : ", '") + std::string(word) + "'";
  }
  throw py::value_error(std::string(option) + ": expected one of " + expected + ", got '" + text +
                        "'");
}

QueueMode ParseMode(const std::string& text) {
  return Parse<QueueMode>(text, "mode",
                          {{"memory", QueueMode::kMemory},
                           {"disk", QueueMode::kDisk},
                           {"offload", QueueMode::kOffload},
                           {"volatile", QueueMode::kVolatile}});
}

OverflowPolicy ParseOverflow(const std::string& text) {
  return Parse<OverflowPolicy>(text, "overflow",
                               {{"drop_oldest", OverflowPolicy::kDropOldest},
                                {"reject", OverflowPolicy::kReject},
                                {"block", OverflowPolicy::kBlock}});
}

std::optional<std::chrono::microseconds> Microseconds(std::optional<std::int64_t> value) {
  if (!value.has_value()) return std::nullopt;
  return std::chrono::microseconds(*value);
}

std::unique_ptr<Queue> OpenQueue(
    const std::string& path, const std::string& mode, const std::optional<std::string>& format,
    std::uint64_t segment_bytes, std::uint64_t max_total_bytes, std::uint64_t item_bytes_max,
    bool weighed, const std::string& overflow, std::optional<std::int64_t> block_timeout_us,
    const std::string& durability, std::int64_t flush_interval_us,
    std::optional<std::int64_t> sync_interval_us, std::shared_ptr<QueueBudget> budget,
    const py::object& memory_is_high, const py::object& on_drop) {
  QueueOptions options;
  options.mode = ParseMode(mode);
  if (format.has_value()) {
    options.format = Parse<QueueFormat>(
        *format, "format",
        {{"topicdb", QueueFormat::kTopicdb}, {"replayq", QueueFormat::kReplayq}});
  }
  options.segment_bytes = segment_bytes;
  options.bytes_max = max_total_bytes;
  options.item_bytes_max = item_bytes_max;
  options.weighed = weighed;
  options.overflow = ParseOverflow(overflow);
  options.block_timeout = Microseconds(block_timeout_us);
  options.durability = ParseDurability(durability);
  options.flush_interval = std::chrono::microseconds(flush_interval_us);
  options.sync_interval = Microseconds(sync_interval_us);
  options.budget = std::move(budget);
  if (memory_is_high.is(py::bool_(true))) {
    options.memory_is_high = &SystemMemoryIsHigh;
  } else if (!memory_is_high.is(py::bool_(false))) {
    options.memory_is_high = Callable(memory_is_high);
  }
  if (!on_drop.is_none()) {
    options.on_drop = [tell = Callable(on_drop)](const Drop& drop) {
      const py::gil_scoped_acquire acquire;
      tell(NameOf(drop.reason), drop.cursor, drop.items.first, drop.items.count, drop.bytes);
    };
  }
  return Unwrap(WithoutGil([&] { return Queue::Open(path, options); }));
}

QueueReceipt Append(Queue& self, const py::object& items,
                    const std::optional<std::string>& durability,
                    const std::optional<std::vector<std::uint64_t>>& weights) {
  const HeldItems held(items);
  const auto wanted = ParseDurability(durability);
  const std::span<const std::uint64_t> counted = weights.has_value()
                                                     ? std::span<const std::uint64_t>(*weights)
                                                     : std::span<const std::uint64_t>();
  return Unwrap(
      WithoutGil([&] { return self.Append(held.views(), wanted, &PythonInterrupts, counted); }));
}

py::list ItemsOf(const Delivery& delivery) {
  py::list items(delivery.items.size());
  for (std::size_t i = 0; i < delivery.items.size(); ++i) {
    const std::string_view item = delivery.items[i];
    PyObject* bytes = PyBytes_FromStringAndSize(item.data(), static_cast<Py_ssize_t>(item.size()));
    if (bytes == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i), bytes);
  }
  return items;
}

// Asks a Python predicate about items, and keeps what it raises for Rethrow. Pop owns it. Not
// thread-safe. May be called without the GIL.
class StopBefore {
 public:
  explicit StopBefore(py::object predicate) : predicate_(std::move(predicate)) {}

  bool operator()(std::string_view item) {
    const py::gil_scoped_acquire acquire;
    try {
      return py::bool_(predicate_(py::bytes(item.data(), item.size())));
    } catch (py::error_already_set& error) {
      raised_.emplace(std::move(error));
      return true;
    }
  }
  // Throws what the predicate has raised, if anything. REQUIRES: the GIL
  void Rethrow() {
    if (raised_.has_value()) throw py::error_already_set(std::move(*raised_));
  }
  bool raised() const { return raised_.has_value(); }

 private:
  py::object predicate_;
  std::optional<py::error_already_set> raised_;
};

py::tuple Pop(QueueCursor& self, std::size_t count, std::uint64_t bytes, bool at_least,
              const py::object& stop_before, std::optional<std::int64_t> timeout_us) {
  PopLimits limits{count, bytes, at_least, nullptr};
  StopBefore stop(stop_before);
  if (!stop_before.is_none()) limits.stop_before = std::ref(stop);
  const Delivery delivery = Unwrap(WithoutGil([&] {
    Result<Delivery> popped = self.Pop(limits, Microseconds(timeout_us), &PythonInterrupts);
    if (stop.raised() && popped.ok()) self.Nack(popped->ranges).IgnoreError();
    return popped;
  }));
  stop.Rethrow();
  Ranges ranges;
  ranges.reserve(delivery.ranges.size());
  for (const SequenceRange& range : delivery.ranges) ranges.emplace_back(range.first, range.count);
  return py::make_tuple(ItemsOf(delivery), py::tuple(py::cast(ranges)));
}

py::dict StatsOf(const CursorStats& stats) {
  py::dict result;
  result["name"] = stats.name;
  result["waiting"] = stats.waiting;
  result["in_flight"] = stats.in_flight;
  result["bytes"] = stats.bytes;
  result["next_sequence"] = stats.next_sequence;
  result["low_water"] = stats.low_water;
  py::dict items;
  py::dict bytes;
  for (std::size_t i = 1; i <= kDropReasons; ++i) {
    const char* name = NameOf(static_cast<DropReason>(i));
    items[name] = stats.dropped_items[i];
    bytes[name] = stats.dropped_bytes[i];
  }
  result["dropped_items"] = items;
  result["dropped_bytes"] = bytes;
  return result;
}

py::dict StatsOf(const QueueStats& stats) {
  py::dict result;
  result["next_sequence"] = stats.next_sequence;
  result["segments"] = stats.segments;
  result["disk_bytes"] = stats.disk_bytes;
  result["bytes"] = stats.bytes;
  result["on_disk"] = stats.on_disk;
  py::list cursors;
  for (const CursorStats& cursor : stats.cursors) cursors.append(StatsOf(cursor));
  result["cursors"] = cursors;
  result["damage"] = stats.damage;
  return result;
}

void RegisterInspector(py::module_& module) {
  py::class_<QueueInspector>(module, "QueueInspector", "Looks at the files of a queue.",
                             py::release_gil_before_calling_cpp_dtor())
      .def(py::init([](const std::string& path) {
             return Unwrap(WithoutGil([&] { return QueueInspector::Open(path); }));
           }),
           py::arg("path"))
      .def("info", &QueueInspector::info)
      .def("next", [](QueueInspector& self) {
        const auto items = Unwrap(WithoutGil([&] { return self.Next(); }));
        py::list result;
        for (const auto& [sequence, item] : items) {
          result.append(py::make_tuple(sequence, py::bytes(item.data(), item.size())));
        }
        return result;
      });
  module.def(
      "repair_queue",
      [](const std::string& path) { return Unwrap(WithoutGil([&] { return RepairQueue(path); })); },
      py::arg("path"));
}

void RegisterCursor(py::module_& module) {
  py::class_<QueueCursor, std::shared_ptr<QueueCursor>>(
      module, "QueueCursor", "A consumer of a queue.", py::release_gil_before_calling_cpp_dtor())
      .def_property_readonly("name", &QueueCursor::name)
      .def_property_readonly("id", &QueueCursor::id)
      .def("pop", &Pop, py::arg("count"), py::arg("bytes"), py::arg("at_least"),
           py::arg("stop_before"), py::arg("timeout_us"))
      .def("ack",
           [](QueueCursor& self, const Ranges& ranges) {
             Check(WithoutGil([&] { return self.Ack(ToRanges(ranges)); }));
           })
      .def("nack",
           [](QueueCursor& self, const Ranges& ranges) {
             Check(WithoutGil([&] { return self.Nack(ToRanges(ranges)); }));
           })
      .def("peek",
           [](QueueCursor& self) -> std::optional<py::bytes> {
             const auto item = Unwrap(WithoutGil([&] { return self.Peek(); }));
             if (!item.has_value()) return std::nullopt;
             return py::bytes(*item);
           })
      .def("stats", [](QueueCursor& self) {
        return StatsOf(Unwrap(WithoutGil([&] { return self.GetStats(); })));
      });
}

}  // namespace

void RegisterQueue(py::module_& module) {
  py::class_<QueueBudget, std::shared_ptr<QueueBudget>>(
      module, "QueueBudget",
      "A limit of bytes that several queues share: QueueBudget(total_bytes). Thread-safe.")
      .def(py::init([](std::int64_t total_bytes) {
             if (total_bytes < 1) throw py::value_error("total_bytes must be at least 1");
             return std::make_shared<QueueBudget>(static_cast<std::uint64_t>(total_bytes));
           }),
           py::arg("total_bytes"))
      .def_property_readonly("total_bytes", &QueueBudget::bytes_max, "The limit.")
      .def_property_readonly("bytes", &QueueBudget::bytes,
                             "What the items of the queues count that nobody has acknowledged.")
      .def(
          "share",
          [](const QueueBudget& self, std::int64_t queues) {
            if (queues < 1) throw py::value_error("queues must be at least 1");
            return self.bytes_max() / static_cast<std::uint64_t>(queues);
          },
          py::arg("queues"), "An equal part of it, as max_total_bytes of each of so many queues.");
  RegisterCursor(module);
  RegisterInspector(module);
  py::class_<Queue>(module, "Queue", "A buffer queue.", py::release_gil_before_calling_cpp_dtor())
      .def(py::init(&OpenQueue), py::arg("path"), py::kw_only(), py::arg("mode"), py::arg("format"),
           py::arg("segment_bytes"), py::arg("max_total_bytes"), py::arg("item_bytes_max"),
           py::arg("weighed"), py::arg("overflow"), py::arg("block_timeout_us"),
           py::arg("durability"), py::arg("flush_interval_us"), py::arg("sync_interval_us"),
           py::arg("budget"), py::arg("memory_is_high"), py::arg("on_drop"))
      .def("append", &Append, py::arg("items"), py::arg("durability"), py::arg("weights"))
      .def(
          "cursor",
          [](Queue& self, const std::string& name, bool from_newest) {
            return Unwrap(WithoutGil([&] { return self.Cursor(name, from_newest); }));
          },
          py::arg("name"), py::arg("from_newest"))
      .def(
          "remove_cursor",
          [](Queue& self, const std::string& name) {
            Check(WithoutGil([&] { return self.RemoveCursor(name); }));
          },
          py::arg("name"))
      .def("flush", [](Queue& self) { Check(WithoutGil([&] { return self.Flush(); })); })
      .def("purge", [](Queue& self) { Check(WithoutGil([&] { return self.Purge(); })); })
      .def("stats",
           [](Queue& self) { return StatsOf(Unwrap(WithoutGil([&] { return self.GetStats(); }))); })
      .def("close", [](Queue& self) { Check(WithoutGil([&] { return self.Close(); })); })
      .def_property_readonly("closed", &Queue::closed)
      .def_property_readonly("path", &Queue::path);
}

}  // namespace topicdb::python
