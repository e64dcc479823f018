#include "convert/results.h"

#include <algorithm>
#include <cstdint>

#include "convert/durability.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// {shard: serial}
py::object SerialsOf(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& serials) {
  py::dict found;
  for (const auto& [shard, serial] : serials) found[py::int_(shard)] = serial;
  return found;
}

template <typename... Values>
std::vector<RecordClass*> ClassesOf() {
  return {&Record<Values>::Fields()...};
}

}  // namespace

RecordFields<Receipt>& Record<Receipt>::Fields() {
  static RecordFields<Receipt> fields(
      kName,
      {{"serials", [](const Receipt& receipt) { return SerialsOf(receipt.serials); }},
       {"count", &Member<&Receipt::count>},
       {"durability", [](const Receipt& receipt) { return Object(NameOf(receipt.durability)); }},
       {"repeated", &Member<&Receipt::repeated>}});
  return fields;
}

RecordFields<JobReceipt>& Record<JobReceipt>::Fields() {
  static RecordFields<JobReceipt> fields(
      kName, {{"serials", [](const JobReceipt& receipt) { return SerialsOf(receipt.serials); }},
              {"messages", &Member<&JobReceipt::messages>},
              {"pending", &Member<&JobReceipt::pending>},
              {"repeated", &Member<&JobReceipt::repeated>}});
  return fields;
}

void ConfigureResults(const py::args& types) {
  const std::vector<RecordClass*> classes = ClassesOf<Receipt, JobReceipt>();
  for (const py::handle given : types) {
    const auto type = given.cast<py::type>();
    const auto name = type.attr("__name__").cast<std::string>();
    const auto found = std::find_if(classes.begin(), classes.end(),
                                    [&](const RecordClass* one) { return one->name() == name; });
    if (found == classes.end()) throw py::type_error(name + ": the extension gives no such result");
    (*found)->Use(type);
  }
  for (const RecordClass* const one : classes) {
    if (!one->has_type()) throw py::type_error(std::string(one->name()) + ": the class is missing");
  }
}

}  // namespace topicdb::python
