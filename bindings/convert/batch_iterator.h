// Iterates over the messages of a batch.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "convert/messages.h"

namespace topicdb::python {

// Returns an iterator that makes each message when the caller asks for it. If the caller keeps no
// messages, they use the same memory again and again. REQUIRES: the GIL
pybind11::object IterateBatch(MessageRows rows);

}  // namespace topicdb::python
