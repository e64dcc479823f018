// Puts Arrow structures into PyCapsules, and takes them out (the Arrow PyCapsule interface).
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "convert/envelopes.h"
#include "convert/messages.h"
#include "topicdb/arrow.h"

namespace topicdb::python {

// Returns a capsule with the schema of messages. REQUIRES (SchemaCapsule, BatchCapsules,
// StreamCapsule): the GIL
pybind11::object SchemaCapsule(ValueForm form, const ArrowColumns& columns);
// Returns (schema, array), with the columns of properties if `stored` is not null.
pybind11::tuple BatchCapsules(const std::shared_ptr<const Batch>& batch,
                              const std::shared_ptr<const Batch>& stored,
                              const ArrowColumns& columns);
// Returns a capsule with a stream of the rest of the scan.
pybind11::object StreamCapsule(std::shared_ptr<Scan> scan, const PageLimits& limits, ValueForm form,
                               const ArrowColumns& columns);

// Keeps copies of the messages of anything with __arrow_c_stream__ or __arrow_c_array__. It copies
// them because Arrow buffers may belong to NumPy or other mutable memory. It refers to no Python
// object, so the caller may release the GIL and destroy it without the GIL. Immutable once made.
class ArrowCopies {
 public:
  // With `escapes`, readers will see the values as they are given, whatever they look like. Throws
  // TypeError or ValueError with the number of the row. REQUIRES: the GIL
  ArrowCopies(const pybind11::object& source, bool escapes);
  const std::vector<MessageView>& messages() const { return messages_; }
  bool has_keys() const { return keys_.has_value(); }
  // Returns the keys of the column 'key', if there is one, together with those that are given
  // beside it.
  MessageKeys KeysWith(const KeyCopies& given) const;

 private:
  void ReadStream(const pybind11::object& source);
  void ReadArray(const pybind11::object& source);
  // Adds copies of the messages of an array.
  void Take(const ArrowMessages& reader, const ArrowArray& array);

  std::deque<std::vector<char>> blocks_;
  std::vector<MessageView> messages_;
  std::optional<std::vector<std::optional<std::string_view>>> keys_;
  EscapedValues escaped_;
};

}  // namespace topicdb::python
