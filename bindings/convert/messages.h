// Converts Python rows into message views, and messages into Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/envelopes.h"
#include "topicdb/arrow.h"
#include "topicdb/message.h"

namespace topicdb::python {

// Takes from the Python layer what the extension needs of it: topicdb.Message,
// topicdb.PropertyMessage, and topicdb.arguments.times.time_us, which turns other times into ints.
// It keeps them for the life of the process. REQUIRES: the GIL
void Configure(pybind11::type message_type, pybind11::type property_message_type,
               pybind11::function time_us);

// Returns a topic or filter as UTF-8. Throws TopicError if `text` has lone surrogates. The error
// begins with `what`.
std::string TopicText(const pybind11::str& text, const char* what);

// Keeps copies of bytes, which are never moved. Not thread-safe.
class KeptBytes {
 public:
  // Returns a copy of the bytes, which lives as long as this.
  std::string_view Keep(const char* bytes, std::size_t size);

 private:
  std::deque<std::string> blocks_;  // never moved once filled
};

// Keeps copies of the keys that Python gives with messages. They refer to no Python object, as with
// RowCopies. Immutable once made.
class KeyCopies {
 public:
  // `key` is None, one key, or an iterable with a key or None for each message. A key is text or
  // bytes. Throws TypeError or ValueError. REQUIRES: the GIL
  explicit KeyCopies(const pybind11::object& key);
  KeyCopies(const KeyCopies&) = delete;
  KeyCopies& operator=(const KeyCopies&) = delete;

  // Returns the keys, which are valid as long as this.
  MessageKeys keys() const;

 private:
  KeptBytes bytes_;
  std::optional<std::string_view> all_;
  std::optional<std::vector<std::optional<std::string_view>>> each_;
};

// Keeps copies of the rows that Python gives. They refer to no Python object, so the caller may
// release the GIL and destroy them without it. No other thread can change the bytes while they are
// checksummed and written. Immutable once made.
class RowCopies {
 public:
  // With `escapes`, readers will see the values as they are given, whatever they look like. Throws
  // TypeError, ValueError or TopicError with the number of the row. REQUIRES: the GIL
  RowCopies(const pybind11::iterable& rows, bool escapes);
  const std::vector<MessageView>& messages() const { return messages_; }
  // Returns the given keys. Rows have none of their own.
  MessageKeys KeysWith(const KeyCopies& given) const { return given.keys(); }

 private:
  // Adds a row. `number` is for the messages of errors.
  void Add(pybind11::handle row, std::size_t number);

  KeptBytes bytes_;
  std::vector<MessageView> messages_;
  EscapedValues escaped_;
};

// The messages of a batch, as Python sees them.
struct MessageRows {
  std::shared_ptr<const Batch> batch;
  std::shared_ptr<const Batch> stored;  // the same rows as stored; null: without properties
};

// Returns a topicdb.Batch, which has these columns as Arrow data. REQUIRES: the GIL
pybind11::object WrapBatch(std::shared_ptr<const Batch> batch, const ArrowColumns& columns = {});

// Returns a new reference to a topicdb.Message or topicdb.PropertyMessage. After an error, returns
// null with an exception set. REQUIRES: the GIL, row < rows.batch->size()
PyObject* NewMessage(const MessageRows& rows, std::size_t row);
// Like NewMessage, but throws after an error.
pybind11::object MessageAt(const MessageRows& rows, std::size_t row);

}  // namespace topicdb::python
