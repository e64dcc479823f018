// Converts MQTT properties of messages into Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <span>
#include <string>

#include "topicdb/envelope.h"

namespace topicdb::python {

// Takes the class topicdb.Properties from the Python layer, once. REQUIRES: the GIL
void ConfigureProperties(pybind11::type properties_type);

// Returns a new reference to the topicdb.Properties of a stored message; all are None if it has
// none. After an error, returns null with an exception set. REQUIRES: the GIL, row < stored.size()
PyObject* NewProperties(const Batch& stored, std::size_t row);

// Returns ((name, value), …). REQUIRES: the GIL
pybind11::tuple UserPropertiesOf(const Envelope& envelope);

// Returns the form that `text` names. Throws ValueError unless it is "stored", "payload" or
// "properties".
ValueForm ParseForm(const std::string& text);

// Replaces values that look like envelopes, so that readers see what was given. It keeps the bytes
// of the replacements, so its owner, which has the messages, must keep it as long as them. Not
// thread-safe.
class EscapedValues {
 public:
  // Replaces the values that need it.
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
