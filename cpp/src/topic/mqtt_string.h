#pragma once

#include <string_view>

#include "topicdb/status.h"

namespace topicdb {

// Checks the rules that MQTT has for topics and filters alike (MQTT 5 sections 1.5.4 and 4.7.3).
// Returns kTopic with a reason that begins with `what`: "topic" or "filter".
Status CheckMqttString(std::string_view text, std::string_view what);

}  // namespace topicdb
