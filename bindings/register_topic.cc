#include "convert/messages.h"
#include "register.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace topicdb::python {

namespace py = pybind11;

namespace {

std::string ValidTopic(const py::str& topic) {
  std::string text = TopicText(topic, "topic");
  Check(CheckTopic(text));
  return text;
}

std::uint32_t CheckedShards(std::int64_t shards) {
  if (shards >= 1 && shards <= kShardsMax) return static_cast<std::uint32_t>(shards);
  throw py::value_error("shards: expected 1 to " + std::to_string(kShardsMax) + ", got " +
                        std::to_string(shards));
}

std::uint32_t ShardOf(const py::str& topic, std::int64_t shards) {
  const std::uint32_t number = CheckedShards(shards);
  return ShardOfTopic(ValidTopic(topic), number);
}

std::uint32_t ShardOfAny(const std::variant<py::str, py::bytes>& key, std::int64_t shards) {
  const py::object object = std::visit([](const auto& one) { return py::object(one); }, key);
  const KeyCopies copies(object);
  const MessageKeys keys = copies.keys();
  Check(CheckKey(keys.all));
  return ShardOfKey(*keys.all, CheckedShards(shards));
}

// Returns the key of each message as bytes or None.
py::list KeyColumn(const py::object& key, std::size_t messages) {
  const KeyCopies copies(key);
  const MessageKeys keys = copies.keys();
  Check(keys.CheckCount(messages));
  Check(CheckKey(keys.all));
  py::list column;
  for (std::size_t row = 0; row < messages; ++row) {
    const std::optional<std::string_view> one = keys.Of(row);
    Check(CheckKey(one).WithContext("row " + std::to_string(row)));
    column.append(one.has_value() ? py::object(py::bytes(one->data(), one->size())) : py::none());
  }
  return column;
}

bool TopicMatches(const py::str& filter, const py::str& topic) {
  return ParseFilter(filter).Matches(ValidTopic(topic));
}

}  // namespace

Filter ParseFilter(const py::str& text) { return Unwrap(Filter::Parse(TopicText(text, "filter"))); }

void RegisterTopic(py::module_& module) {
  module.def(
      "configure",
      [](py::type message, py::type property_message, py::type properties, py::function time_us) {
        Configure(std::move(message), std::move(property_message), std::move(time_us));
        ConfigureProperties(std::move(properties));
      },
      py::arg("message_type"), py::arg("property_message_type"), py::arg("properties_type"),
      py::arg("time_us"), py::pos_only());
  module.def("configure_results", &ConfigureResults);
  module.def(
      "check_topic", [](const py::str& topic) { ValidTopic(topic); }, py::arg("topic"),
      py::pos_only(), "Raises TopicError unless the topic is valid.");
  module.def(
      "check_filter", [](const py::str& filter) { ParseFilter(filter); }, py::arg("filter"),
      py::pos_only(), "Raises TopicError unless the topic filter is valid.");
  module.def("topic_matches", &TopicMatches, py::arg("filter"), py::arg("topic"),
             "Whether a topic matches a topic filter, by the rules of MQTT 5.");
  module.def("shard_of", &ShardOf, py::arg("topic"), py::arg("shards"),
             "The shard of a topic: crc32(topic) % shards.");
  module.def("shard_of_key", &ShardOfAny, py::arg("key"), py::arg("shards"),
             "The shard of a key, which is text or bytes: crc32(key) % shards.");
  module.def("key_column", &KeyColumn, py::arg("key"), py::arg("messages"));
}

}  // namespace topicdb::python
