// Translates a Status of the core into a Python exception. Nothing else does that.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "topicdb/status.h"
#include "topicdb/transaction.h"

namespace topicdb::python {

// Makes the exception classes, which live as long as the process.
void RegisterErrors(pybind11::module_& module);

// Throws what becomes the Python exception for the code of `status`. REQUIRES: the GIL,
// !status.ok()
[[noreturn]] void Raise(const Status& status);

// Like Raise, but also sets what is known of a failed transaction as attributes of the exception.
[[noreturn]] void RaiseCommitFault(const Status& status, const CommitFault& fault);
// Return the exceptions that Raise and RaiseCommitFault would throw. REQUIRES: the GIL,
// !status.ok()
pybind11::object ExceptionOf(const Status& status);
pybind11::object ExceptionOf(const Status& status, const CommitFault& fault);

// Check raises the error of `status`, if it is one. Unwrap does so, too, and otherwise returns the
// value.
// REQUIRES (Check, Unwrap): the GIL
inline void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T Unwrap(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return std::move(result).value();
}

}  // namespace topicdb::python
