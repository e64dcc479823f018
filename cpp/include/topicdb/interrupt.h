#pragma once

#include <functional>

namespace topicdb {

// Asked now and then by what may take long: true ends it with kInterrupted. May be empty.
using InterruptCheck = std::function<bool()>;

}  // namespace topicdb
