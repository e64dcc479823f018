#pragma once

#include <functional>

namespace topicdb {

// Calls that may take long call this now and then. When it returns true, the call ends with
// kInterrupted. May be empty.
using InterruptCheck = std::function<bool()>;

}  // namespace topicdb
