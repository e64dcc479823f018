#include <pybind11/stl.h>

#include "convert/envelopes.h"
#include "register.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// The class topicdb.Properties. It is kept for the life of the process, since modules of C++
// extensions are never unloaded.
PyObject* properties_type = nullptr;

using Text = std::optional<std::string_view>;
using Number = std::optional<std::int64_t>;

py::object TextOf(const Text& text) {
  return text.has_value() ? py::object(py::str(text->data(), text->size())) : py::none();
}

py::object BytesOf(const Text& bytes) {
  return bytes.has_value() ? py::object(py::bytes(bytes->data(), bytes->size())) : py::none();
}

template <typename Value>
py::object NumberOf(const std::optional<Value>& number) {
  return number.has_value() ? py::object(py::int_(*number)) : py::none();
}

py::tuple IdsOf(const Envelope& envelope) { return py::tuple(py::cast(envelope.subscription_ids)); }

// Returns the fields in the order of topicdb.Properties.
py::tuple PropertiesOf(const Envelope& envelope, std::int64_t timestamp) {
  const bool is_known = !envelope.client_id.empty();
  return py::make_tuple(py::int_(envelope.qos), py::bool_(envelope.retain),
                        TextOf(is_known ? Text(envelope.client_id) : std::nullopt),
                        NumberOf(envelope.payload_format), NumberOf(envelope.message_expiry_s),
                        TextOf(envelope.content_type), TextOf(envelope.response_topic),
                        BytesOf(envelope.correlation_data), UserPropertiesOf(envelope),
                        IdsOf(envelope),
                        py::cast(envelope.received_at.value_or(TimeAt<WallTime>(timestamp))));
}

// Returns the envelope, or None if `value` is not one or is an escape. The caller must keep the
// bytes of `value` until the result is converted.
std::optional<Envelope> Decode(const py::bytes& value) {
  const std::string_view bytes = value;
  Envelope envelope;
  const bool is_one = MayBeEnvelope(bytes) && WithoutGil([&] { return envelope.Decode(bytes); });
  if (!is_one || !envelope.has_properties) return std::nullopt;
  return envelope;
}

void CheckNotNegative(std::int64_t number, const char* what) {
  if (number < 0) throw py::value_error(std::string(what) + " is negative");
}

py::bytes Encode(const py::bytes& payload, std::uint8_t qos, bool retain,
                 std::string_view client_id, std::optional<std::uint8_t> payload_format,
                 Number message_expiry_s, const Text& content_type, const Text& response_topic,
                 const std::optional<py::bytes>& correlation_data,
                 const std::vector<std::pair<std::string_view, std::string_view>>& users,
                 std::vector<std::int64_t> subscription_ids, std::optional<WallTime> received) {
  CheckNotNegative(message_expiry_s.value_or(0), "message_expiry_s");
  CheckNotNegative(MicrosecondsOf(received.value_or(WallTime())), "received");
  for (const std::int64_t id : subscription_ids) CheckNotNegative(id, "subscription_ids: a number");
  Envelope envelope;
  envelope.payload = std::string_view(payload);
  envelope.qos = qos;
  envelope.retain = retain;
  envelope.client_id = client_id;
  envelope.payload_format = payload_format;
  envelope.message_expiry_s = message_expiry_s;
  envelope.content_type = content_type;
  envelope.response_topic = response_topic;
  if (correlation_data.has_value()) envelope.correlation_data = std::string_view(*correlation_data);
  for (const auto& [name, text] : users) envelope.user_properties.push_back({name, text});
  envelope.subscription_ids = std::move(subscription_ids);
  envelope.received_at = received;
  const std::string bytes = WithoutGil([&] { return envelope.Encode(); });
  return {bytes.data(), bytes.size()};
}

// Returns the payload of an envelope, or else the value itself.
py::bytes Payload(const py::bytes& value) {
  const std::string_view bytes = value;
  if (!MayBeEnvelope(bytes)) return value;
  const std::string_view payload = WithoutGil([&] { return PayloadOf(bytes); });
  return payload.data() == bytes.data() ? value : py::bytes(payload.data(), payload.size());
}

py::bytes Escape(const py::bytes& value) {
  const std::string_view bytes = value;
  if (!MayBeEnvelope(bytes)) return value;
  const auto escaped = WithoutGil([&] { return EscapedValue(bytes); });
  return escaped.has_value() ? py::bytes(*escaped) : value;
}

}  // namespace

py::tuple UserPropertiesOf(const Envelope& envelope) {
  py::tuple users(envelope.user_properties.size());
  for (std::size_t i = 0; i < users.size(); ++i) {
    const UserProperty& property = envelope.user_properties[i];
    users[i] = py::make_tuple(TextOf(property.name), TextOf(property.value));
  }
  return users;
}

void ConfigureProperties(py::type type) { properties_type = type.release().ptr(); }

PyObject* NewProperties(const Batch& stored, std::size_t row) {
  try {
    const std::string_view value = stored.value(row);
    Envelope envelope;
    const bool has_any = MayBeEnvelope(value) && envelope.Decode(value) && envelope.has_properties;
    const py::tuple fields = has_any ? PropertiesOf(envelope, stored.timestamp(row)) : py::tuple();
    return PyObject_CallObject(properties_type, fields.ptr());
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

ValueForm ParseForm(const std::string& text) {
  if (text == "stored") return ValueForm::kStored;
  if (text == "payload") return ValueForm::kPayload;
  if (text == "properties") return ValueForm::kProperties;
  throw py::value_error("form: expected 'stored', 'payload' or 'properties', got '" + text + "'");
}

void RegisterEnvelope(py::module_& module) {
  module.attr("ENVELOPE_MAGIC") = py::bytes(kEnvelopeMagic.data(), kEnvelopeMagic.size());
  module.def("decode_envelope", &Decode, py::arg("value"), py::pos_only());
  module.def("encode_envelope", &Encode, py::arg("payload"), py::arg("qos"), py::arg("retain"),
             py::arg("client_id"), py::arg("payload_format"), py::arg("message_expiry_s"),
             py::arg("content_type"), py::arg("response_topic"), py::arg("correlation_data"),
             py::arg("user_properties"), py::arg("subscription_ids"), py::arg("received"),
             py::pos_only());
  module.def("payload_of", &Payload, py::arg("value"), py::pos_only());
  module.def("escaped_value", &Escape, py::arg("value"), py::pos_only());
}

}  // namespace topicdb::python
