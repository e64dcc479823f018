// Gives values of the core to Python as objects with named fields, and takes such objects from it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convert/times.h"
#include "convert/typed_numbers.h"

namespace topicdb::python {

// A class of the Python layer, such as topicdb.Receipt, and the names of its fields. The class is a
// dataclass with slots, or a NamedTuple. It lives as long as the process. The GIL guards it.
// REQUIRES (every method): the GIL
class RecordClass {
 public:
  RecordClass(const char* name, const std::vector<const char*>& fields);
  RecordClass(const RecordClass&) = delete;
  RecordClass& operator=(const RecordClass&) = delete;

  const char* name() const { return name_; }
  // Returns whether Use was called.
  bool has_type() const { return type_ != nullptr; }
  // Makes objects of `type` from now on. Throws TypeError unless its fields are those of this class
  // in the same order.
  void Use(const pybind11::type& type);
  // Returns whether an object is of the class.
  bool IsClassOf(pybind11::handle object) const;

 protected:
  ~RecordClass() = default;
  // Returns an object without values. The caller sets each field once.
  pybind11::object New() const;
  // Sets a field of an object that New has made.
  void Set(const pybind11::object& record, std::size_t field, pybind11::object value) const;

 private:
  const char* const name_;
  // Never released: modules of C++ extensions are never unloaded.
  std::vector<PyObject*> fields_;
  PyTypeObject* type_ = nullptr;
  bool is_tuple_ = false;
};

// A field: its name, and how it is found in a value.
template <typename Value>
struct Field {
  const char* name;
  pybind11::object (*of)(const Value& value);
};

// The class of the Python layer for `Value`, with how each of its fields is found in a value. Lives
// and is guarded as RecordClass.
template <typename Value>
class RecordFields final : public RecordClass {
 public:
  RecordFields(const char* name, std::vector<Field<Value>> fields)
      : RecordClass(name, NamesOf(fields)), fields_(std::move(fields)) {}

  // Returns an object of the class with the fields of `value`. REQUIRES: the GIL
  pybind11::object Make(const Value& value) const {
    pybind11::object record = New();
    for (std::size_t i = 0; i < fields_.size(); ++i) Set(record, i, fields_[i].of(value));
    return record;
  }

 private:
  static std::vector<const char*> NamesOf(const std::vector<Field<Value>>& fields) {
    std::vector<const char*> names;
    for (const Field<Value>& field : fields) names.push_back(field.name);
    return names;
  }

  const std::vector<Field<Value>> fields_;
};

// How `Value` crosses to Python. Each specialization has
//   static constexpr char kName[], the name of the class, and
//   static RecordFields<Value>& Fields(), which always returns the same object;
// and if Python may give such an object,
//   static Value Take(pybind11::handle record), which throws TypeError or ValueError.
template <typename Value>
struct Record;

template <typename Value>
concept IsRecord = requires { Record<Value>::kName; };
template <typename Value>
concept IsTakenRecord = requires(pybind11::handle record) { Record<Value>::Take(record); };

// Converts a value of any type that pybind11 knows.
template <typename Value>
pybind11::object Object(const Value& value) {
  return pybind11::cast(value);
}

template <typename Pointer>
struct ClassOfMember;
template <typename Class, typename Member>
struct ClassOfMember<Member Class::*> {
  using type = Class;
};

// A Field::of for a field that is a member of the value.
template <auto kMember>
pybind11::object Member(const typename ClassOfMember<decltype(kMember)>::type& value) {
  return Object(value.*kMember);
}

// Returns a field of an object from Python. Throws TypeError, which names the field, unless it is
// a `Value`.
template <typename Value>
Value TakeField(pybind11::handle record, const char* field) {
  const pybind11::object given = record.attr(field);
  pybind11::detail::make_caster<Value> caster;
  if (!caster.load(given, true)) {
    throw pybind11::type_error(std::string(field) + ": " + Py_TYPE(given.ptr())->tp_name +
                               " is of the wrong type, or out of range");
  }
  return pybind11::detail::cast_op<Value>(std::move(caster));
}

}  // namespace topicdb::python

namespace pybind11::detail {

template <typename Value>
struct type_caster<Value, std::enable_if_t<topicdb::python::IsRecord<Value>>> {
  PYBIND11_TYPE_CASTER(Value,
                       const_name("topicdb.") + const_name(topicdb::python::Record<Value>::kName));

  static handle cast(const Value& record, return_value_policy, handle) {
    return topicdb::python::Record<Value>::Fields().Make(record).release();
  }
  bool load(handle source, bool)
    requires topicdb::python::IsTakenRecord<Value>
  {
    if (!topicdb::python::Record<Value>::Fields().IsClassOf(source)) return false;
    value = topicdb::python::Record<Value>::Take(source);
    return true;
  }
};

}  // namespace pybind11::detail
