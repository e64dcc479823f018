#include "messages.h"
#include "register.h"


namespace topicdb::python {

namespace py = pybind11;

namespace {

std::uint32_t ShardOf(const std::string& topic, std::uint32_t shards) {
  if (shards == 0) throw py::value_error("shards must be at least 1");
  Check(CheckTopic(topic));
  return ShardOfTopic(topic, shards);
}

bool TopicMatches(const std::string& filter, const std::string& topic) {
  const Filter parsed = Unwrap(Filter::Parse(filter));
  Check(CheckTopic(topic));
  return parsed.Matches(topic);
}

}  // namespace

void RegisterTopic(py::module_& module) {
  module.def("configure", &Configure, py::arg("message_type"), py::arg("time_us"), py::pos_only());
  module.def(
      "check_topic", [](const std::string& topic) { Check(CheckTopic(topic)); }, py::arg("topic"),
      py::pos_only(), "Raises TopicError unless the topic is valid.");
  module.def(
      "check_filter", [](const std::string& filter) { Check(Filter::Parse(filter).status()); },
      py::arg("filter"), py::pos_only(), "Raises TopicError unless the topic filter is valid.");
  module.def("topic_matches", &TopicMatches, py::arg("filter"), py::arg("topic"),
             "Whether a topic matches a topic filter, by the rules of MQTT 5.");
  module.def("shard_of", &ShardOf, py::arg("topic"), py::arg("shards"),
             "The shard of a topic: crc32(topic) % shards.");
}

}  // namespace topicdb::python
