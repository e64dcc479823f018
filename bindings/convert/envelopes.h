// MQTT properties of messages as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <span>
#include <string>

#include "topicdb/envelope.h"

namespace topicdb::python {

// What the Python layer told the extension: topicdb.Properties.
void ConfigureProperties(pybind11::type properties_type);

// A topicdb.Properties of a stored message: all None if it has none. A new reference; null with an
// exception set. REQUIRES: the GIL, row < stored.size()
PyObject* NewProperties(const Batch& stored, std::size_t row);

// ValueError for another text than "stored", "payload" and "properties".
ValueForm ParseForm(const std::string& text);

// Values to be stored so that readers see what was given. Keeps what it puts in their place.
class EscapedValues {
 public:
  void Apply(std::span<MessageView> messages) {
    for (MessageView& message : messages) {
      if (!MayBeEnvelope(message.value)) continue;
      if (auto escaped = EscapedValue(message.value)) {
        message.value = kept_.emplace_back(std::move(*escaped));
      }
    }
  }

 private:
  std::deque<std::string> kept_;
};

}  // namespace topicdb::python
