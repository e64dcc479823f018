#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/durability.h"
#include "convert/numbers.h"
#include "register.h"
#include "topicdb/options.h"

// Each option of topicdb.open is one attribute of OpenOptions. Attributes can be set, not read.
namespace topicdb::python {

namespace py = pybind11;

namespace {

using Numbers = std::vector<std::int64_t>;
using Type = py::class_<OpenOptions>;

ShardBy ParseShardBy(const std::string& text) {
  if (text == "topic") return ShardBy::kTopic;
  if (text == "key") return ShardBy::kKey;
  Raise(SchemaFault("shard_by: expected 'topic' or 'key', got '" + text + "'"));
}

bool ParseLearning(const std::string& learning) {
  if (learning == "adaptive" || learning == "base") return learning == "adaptive";
  throw py::value_error("learning: 'adaptive' or 'base', not '" + learning + "'");
}

OnDamage ParseOnDamage(const std::string& text) {
  if (text == "raise") return OnDamage::kRaise;
  if (text == "skip") return OnDamage::kSkip;
  throw py::value_error("on_damage: 'raise' or 'skip', not '" + text + "'");
}

// Returns a number of bytes. A negative one becomes 0, which the core refuses.
std::size_t Size(std::int64_t value) {
  return static_cast<std::size_t>(std::max<std::int64_t>(value, 0));
}

template <typename Value>
void Define(Type& type, const char* name, void (*set)(OpenOptions&, Value)) {
  type.def_property(name, py::cpp_function(), set);
}

void DefineSchema(Type& type) {
  Define<std::int64_t>(type, "shards", [](OpenOptions& options, std::int64_t shards) {
    options.schema.shards = Unsigned(shards, "shards", &SchemaFault);
  });
  Define<const std::string&>(type, "shard_by", [](OpenOptions& options, const std::string& by) {
    options.schema.shard_by = ParseShardBy(by);
  });
  Define<const std::string&>(type, "layout", [](OpenOptions& options, const std::string& layout) {
    options.schema.layout = Unwrap(LayoutNamed(layout));
  });
  Define<std::int64_t>(type, "timestamp_bytes", [](OpenOptions& options, std::int64_t bytes) {
    options.schema.timestamp_bytes = Unsigned(bytes, "timestamp_bytes", &SchemaFault);
  });
  Define<std::vector<std::string>>(type, "structures",
                                   [](OpenOptions& options, std::vector<std::string> structures) {
                                     options.schema.structures = std::move(structures);
                                   });
  Define<const Numbers&>(type, "thresholds", [](OpenOptions& options, const Numbers& thresholds) {
    options.schema.thresholds = AllUnsigned(thresholds, "thresholds", &SchemaFault);
  });
  Define<std::vector<RetentionClass>>(
      type, "retention", [](OpenOptions& options, std::vector<RetentionClass> retention) {
        options.schema.retention = std::move(retention);
      });
}

void DefineCommit(Type& type) {
  Define<std::int64_t>(type, "flush_interval_us", [](OpenOptions& options, std::int64_t us) {
    options.commit.flush_interval = std::chrono::microseconds(us);
  });
  Define<std::int64_t>(type, "idle_flush_interval_us", [](OpenOptions& options, std::int64_t us) {
    options.commit.idle_flush_interval = std::chrono::microseconds(us);
  });
  Define<std::int64_t>(type, "conflict_window_us", [](OpenOptions& options, std::int64_t us) {
    options.commit.conflict_window = std::chrono::microseconds(us);
  });
  Define<std::int64_t>(type, "max_pending", [](OpenOptions& options, std::int64_t commits) {
    options.commit.pending_max = Size(commits);
  });
  Define<std::int64_t>(type, "max_pending_bytes", [](OpenOptions& options, std::int64_t bytes) {
    options.commit.pending_bytes_max = Size(bytes);
  });
}

void DefineMaintenance(Type& type) {
  Define<std::int64_t>(type, "quota_bytes", [](OpenOptions& options, std::int64_t bytes) {
    if (bytes < 0) throw py::value_error("quota_bytes: a size cannot be negative");
    options.quota_bytes = static_cast<std::uint64_t>(bytes);
  });
  Define<double>(type, "quota_trim",
                 [](OpenOptions& options, double part) { options.quota_trim = part; });
  Define<std::int64_t>(type, "maintenance_interval_us", [](OpenOptions& options, std::int64_t us) {
    options.maintenance_interval = std::chrono::microseconds(us);
  });
}

void DefineHandle(Type& type) {
  Define<bool>(type, "read_only",
               [](OpenOptions& options, bool read_only) { options.read_only = read_only; });
  Define<const Numbers&>(type, "only_shards", [](OpenOptions& options, const Numbers& shards) {
    options.only_shards = AllUnsigned(shards, "only_shards", &InvalidArgument);
  });
  Define<const std::string&>(type, "on_damage",
                             [](OpenOptions& options, const std::string& on_damage) {
                               options.on_damage = ParseOnDamage(on_damage);
                             });
  Define<const std::string&>(type, "durability",
                             [](OpenOptions& options, const std::string& durability) {
                               options.durability = ParseDurability(durability);
                             });
  Define<std::size_t>(type, "cache_bytes",
                      [](OpenOptions& options, std::size_t bytes) { options.cache_bytes = bytes; });
  Define<std::size_t>(type, "write_buffer_bytes", [](OpenOptions& options, std::size_t bytes) {
    options.write_buffer_bytes = bytes;
  });
  Define<std::size_t>(type, "seal_bytes",
                      [](OpenOptions& options, std::size_t bytes) { options.seal_bytes = bytes; });
  Define<const std::string&>(type, "learning",
                             [](OpenOptions& options, const std::string& learning) {
                               options.adaptive_structures = ParseLearning(learning);
                             });
  Define<std::uint32_t>(type, "streams_max", [](OpenOptions& options, std::uint32_t streams) {
    options.streams_max = streams;
  });
}

}  // namespace

void RegisterOptions(py::module_& module) {
  Type type(module, "OpenOptions", "What topicdb.open asks for.", py::is_final());
  type.def(py::init<>());
  DefineSchema(type);
  DefineHandle(type);
  DefineCommit(type);
  DefineMaintenance(type);
}

}  // namespace topicdb::python
