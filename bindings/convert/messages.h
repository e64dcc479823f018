// Python rows into message views and back.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "convert/envelopes.h"
#include "topicdb/message.h"

namespace topicdb::python {

// What the Python layer told the extension: topicdb.Message, topicdb.PropertyMessage, and
// topicdb.times.time_us, which turns times that are no ints into ints.
void Configure(pybind11::type message_type, pybind11::type property_message_type,
               pybind11::function time_us);

// A topic or filter as UTF-8. TopicError for text with lone surrogates. `what` begins the error.
std::string TopicText(const pybind11::str& text, const char* what);

// Copies of rows given by Python: nothing here refers to a Python object, so the GIL may go, and no
// other thread can change the bytes while they are checksummed and written.
class RowCopies {
 public:
  // `escapes`: readers are to see the values that are given, whatever they look like.
  // TypeError, ValueError, TopicError with the row's number. REQUIRES: the GIL
  RowCopies(const pybind11::iterable& rows, bool escapes);
  const std::vector<MessageView>& messages() const { return messages_; }

 private:
  void Add(pybind11::handle row, std::size_t number);
  std::string_view Keep(const char* bytes, std::size_t size);

  std::deque<std::string> blocks_;  // never moved once filled
  std::vector<MessageView> messages_;
  EscapedValues escaped_;
};

// Messages of a batch, as Python sees them.
struct MessageRows {
  std::shared_ptr<const Batch> batch;
  std::shared_ptr<const Batch> stored;  // the same as they are stored; null: without properties
};

// A topicdb.Message, or a topicdb.PropertyMessage, as a new reference; null with an exception set.
// REQUIRES: the GIL, row < rows.batch->size()
PyObject* NewMessage(const MessageRows& rows, std::size_t row);
// The same, throwing.
pybind11::object MessageAt(const MessageRows& rows, std::size_t row);

}  // namespace topicdb::python
