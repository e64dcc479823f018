// The results of the core that Python sees as objects with named fields. results.cc has the fields:
// a field that the core adds to one of them gets a line there, and one in the class in Python.
#pragma once

#include "convert/records.h"
#include "topicdb/job.h"
#include "topicdb/message.h"

namespace topicdb::python {

template <>
struct Record<Receipt> {
  static constexpr char kName[] = "Receipt";
  static RecordFields<Receipt>& Fields();
};

template <>
struct Record<JobReceipt> {
  static constexpr char kName[] = "Committed";
  static RecordFields<JobReceipt>& Fields();
};

// Takes the classes from the Python layer, each of which has the name of one here. Throws TypeError
// if one is missing, or is none of these, or has other fields.
void ConfigureResults(const pybind11::args& types);

}  // namespace topicdb::python
