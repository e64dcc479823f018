// Iterates over the messages of a batch.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "convert/messages.h"

namespace topicdb::python {

// Returns an iterator that makes each message when it is asked for. A caller that does not keep the
// messages uses the same memory again and again. REQUIRES: the GIL
pybind11::object IterateBatch(MessageRows rows);

}  // namespace topicdb::python
