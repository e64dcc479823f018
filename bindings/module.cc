#include "register.h"

PYBIND11_MODULE(_core, module) {
  namespace python = topicdb::python;
  module.doc() = "The C++ core of TopicDB. Private: use the package topicdb.";
  python::RegisterErrors(module);
  python::RegisterTopic(module);
  python::RegisterBatch(module);
  python::RegisterPosition(module);
  python::RegisterScan(module);
  python::RegisterTransaction(module);
  python::RegisterDatabase(module);
}
