#pragma once

#include <functional>

namespace topicdb {

// A function that asks whether a call should stop. Calls that may take long call it now and then,
// and return kInterrupted once it returns true. If it is empty, nothing interrupts the call.
using InterruptCheck = std::function<bool()>;

}  // namespace topicdb
