//===- Items.h - items of tuples, lists and dicts ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// CPython's macros for its own containers, or the functions of the stable ABI
// if the binding is compiled for it (Py_LIMITED_API). The caller has checked
// types and sizes. All functions need the GIL.

#ifndef ANABRANCH_BINDINGS_ITEMS_H
#define ANABRANCH_BINDINGS_ITEMS_H

#include "support/SmallArray.h"

#include <Python.h>

namespace anabranch::python {

inline Py_ssize_t tupleSize(PyObject *tuple) {
#ifdef Py_LIMITED_API
  return PyTuple_Size(tuple);
#else
  return PyTuple_GET_SIZE(tuple);
#endif
}

/// Borrowed.
inline PyObject *tupleItem(PyObject *tuple, Py_ssize_t place) {
#ifdef Py_LIMITED_API
  return PyTuple_GetItem(tuple, place);
#else
  return PyTuple_GET_ITEM(tuple, place);
#endif
}

/// Takes over `item`, which may be null. The tuple is new and the place empty.
inline void fillTuple(PyObject *tuple, Py_ssize_t place, PyObject *item) {
#ifdef Py_LIMITED_API
  PyTuple_SetItem(tuple, place, item);
#else
  PyTuple_SET_ITEM(tuple, place, item);
#endif
}

/// The same for a list.
inline void fillList(PyObject *list, Py_ssize_t place, PyObject *item) {
#ifdef Py_LIMITED_API
  PyList_SetItem(list, place, item);
#else
  PyList_SET_ITEM(list, place, item);
#endif
}

/// Of a list or a tuple.
inline Py_ssize_t sequenceSize(PyObject *sequence) {
#ifdef Py_LIMITED_API
  return PyList_Check(sequence) ? PyList_Size(sequence)
                                : PyTuple_Size(sequence);
#else
  return PySequence_Fast_GET_SIZE(sequence);
#endif
}

/// Of a list or a tuple, borrowed.
inline PyObject *sequenceItem(PyObject *sequence, Py_ssize_t place) {
#ifdef Py_LIMITED_API
  return PyList_Check(sequence) ? PyList_GetItem(sequence, place)
                                : PyTuple_GetItem(sequence, place);
#else
  return PySequence_Fast_GET_ITEM(sequence, place);
#endif
}

/// All items of a list or a tuple side by side, borrowed.
class SequenceItems {
public:
#ifdef Py_LIMITED_API
  explicit SequenceItems(PyObject *sequence)
      : copies(size_t(sequenceSize(sequence))) {
    Py_ssize_t size = sequenceSize(sequence);
    for (Py_ssize_t i = 0; i < size; ++i)
      copies[size_t(i)] = sequenceItem(sequence, i);
  }
  PyObject **data() { return copies.data(); }

private:
  SmallArray<PyObject *, 16> copies;
#else
  explicit SequenceItems(PyObject *sequence)
      : items(PySequence_Fast_ITEMS(sequence)) {}
  PyObject **data() { return items; }

private:
  PyObject **items;
#endif
};

inline bool isEmptyDict(PyObject *dict) {
#ifdef Py_LIMITED_API
  return PyDict_Size(dict) == 0;
#else
  return PyDict_GET_SIZE(dict) == 0;
#endif
}

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_ITEMS_H
