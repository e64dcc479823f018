#include "convert/batch_iterator.h"

#include <array>

#include "convert/messages.h"

namespace topicdb::python {

namespace py = pybind11;

namespace {

// The iterator, as a type of CPython's own kind. A call of a bound C++ function would take as long
// as it takes to make a message.
struct IteratorObject {
  PyObject_HEAD MessageRows* rows;  // null at the end
  std::size_t row;
};

void Deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<IteratorObject*>(self)->rows;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* Next(PyObject* self) {
  auto* iterator = reinterpret_cast<IteratorObject*>(self);
  if (iterator->rows == nullptr) return nullptr;
  if (iterator->row == iterator->rows->batch->size()) {
    delete std::exchange(iterator->rows, nullptr);
    return nullptr;  // no exception is set, which means the end
  }
  return NewMessage(*iterator->rows, iterator->row++);
}

PyTypeObject* IteratorType() {
  static PyTypeObject* const type = [] {
    static std::array<PyType_Slot, 4> slots{{
        {Py_tp_dealloc, reinterpret_cast<void*>(&Deallocate)},
        {Py_tp_iter, reinterpret_cast<void*>(&PyObject_SelfIter)},
        {Py_tp_iternext, reinterpret_cast<void*>(&Next)},
        {0, nullptr},
    }};
    static PyType_Spec spec{"topicdb._core.BatchIterator", sizeof(IteratorObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots.data()};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

}  // namespace

py::object IterateBatch(MessageRows rows) {
  PyTypeObject* const type = IteratorType();
  if (type == nullptr) throw py::error_already_set();
  auto* const iterator = reinterpret_cast<IteratorObject*>(type->tp_alloc(type, 0));
  if (iterator == nullptr) throw py::error_already_set();
  iterator->rows = new MessageRows(std::move(rows));
  iterator->row = 0;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(iterator));
}

}  // namespace topicdb::python
