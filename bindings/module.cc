#include "register.h"

namespace topicdb::python {

void CheckProcessor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0) return;
  throw pybind11::import_error(
      "TopicDB needs a processor with SSE 4.2 and PCLMULQDQ (x86-64 since 2011)");
#endif
}

}  // namespace topicdb::python

PYBIND11_MODULE(_core, module) {
  namespace python = topicdb::python;
  python::CheckProcessor();
  module.doc() = "The C++ core of TopicDB. Private: use the package topicdb.";
  python::RegisterErrors(module);
  python::RegisterTopic(module);
  python::RegisterEnvelope(module);
  python::RegisterBatch(module);
  python::RegisterPosition(module);
  python::RegisterScan(module);
  python::RegisterTail(module);
  python::RegisterTransaction(module);
  python::RegisterDatabase(module);
  python::RegisterCopies(module);
  python::RegisterVerify(module);
  python::RegisterJob(module);
  python::RegisterQueue(module);
}
