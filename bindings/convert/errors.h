// The only translation of a core Status into a Python exception.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "topicdb/status.h"
#include "topicdb/transaction.h"

namespace topicdb::python {

void RegisterErrors(pybind11::module_& module);

// Throws what becomes the Python exception of the status' code. REQUIRES: the GIL, !status.ok()
[[noreturn]] void Raise(const Status& status);

// As Raise, with what is known of a failed transaction as attributes.
[[noreturn]] void RaiseCommitFault(const Status& status, const CommitFault& fault);
// What Raise would throw. REQUIRES: the GIL, !status.ok()
pybind11::object ExceptionOf(const Status& status);

inline void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T Unwrap(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return std::move(result).value();
}

}  // namespace topicdb::python
