#include "register.h"

namespace topicdb::python {

void CheckProcessor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0) return;
  throw pybind11::import_error(
      "TopicDB needs a processor with SSE 4.2 and PCLMULQDQ (x86-64 since 2011)");
#endif
}

// Returns true in the main interpreter, and sets an ImportError in another one. There, pybind11
// would wait for itself, since it takes the GIL by the thread's first interpreter. Also, the
// exceptions of Raise belong to one interpreter.
bool IsMainInterpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(
      PyExc_ImportError,
      "topicdb works in the main interpreter of a process only, not in subinterpreters: "
      "use threads or processes");
  return false;
}

}  // namespace topicdb::python

PYBIND11_MODULE(_core_of_main, module, pybind11::multiple_interpreters::not_supported()) {
  namespace python = topicdb::python;
  if (!python::IsMainInterpreter()) throw pybind11::error_already_set();
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
  python::RegisterOptions(module);
  python::RegisterDatabase(module);
  python::RegisterCopies(module);
  python::RegisterVerify(module);
  python::RegisterUpload(module);
  python::RegisterJob(module);
  python::RegisterQueue(module);
  // Why there are no sites; empty if there are.
  module.attr("REPLICATION_LACKS") = TOPICDB_REPLICATION_LACKS;
#if TOPICDB_HAS_REPLICATION
  python::RegisterSite(module);
#endif
}

// Python calls this, in whichever interpreter imports the module: what pybind11 does first would
// hang in another one. (From Python 3.13 on it is called in the main one, whoever imports.)
// NOLINTNEXTLINE(bugprone-reserved-identifier): Python makes the name of that of the module
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  return topicdb::python::IsMainInterpreter() ? PyInit__core_of_main() : nullptr;
}
