//===- SameValue.cpp - whether a value is what the trace saw --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/SameValue.h"
#include "support/Items.h"
#include "support/Ref.h"

#include <cmath>
#include <cstring>

using namespace anabranch::python;

namespace {

bool sameDouble(double value, double known) {
  if (std::isnan(known))
    return std::isnan(value);
  return std::memcmp(&value, &known, sizeof value) == 0;
}

bool sameComplex(PyObject *value, PyObject *known) {
  return sameDouble(PyComplex_RealAsDouble(value),
                    PyComplex_RealAsDouble(known)) &&
         sameDouble(PyComplex_ImagAsDouble(value),
                    PyComplex_ImagAsDouble(known));
}

bool sameTuple(PyObject *value, PyObject *known) {
  Py_ssize_t size = tupleSize(known);
  if (tupleSize(value) != size)
    return false;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!sameValue(tupleItem(value, i), tupleItem(known, i)))
      return false;
  return true;
}

/// Calls `visit` with each item until it returns false. False where it did, or
/// where an item raised an error.
template <typename Visit> bool forEachItem(PyObject *container, Visit visit) {
  Ref items(PyObject_GetIter(container));
  if (!items)
    return false;
  while (Ref item{PyIter_Next(items.get())})
    if (!visit(item.get()))
      return false;
  return !PyErr_Occurred();
}

bool sameSet(PyObject *value, PyObject *known) {
  if (PySet_Size(value) != PySet_Size(known))
    return false;
  // A dict returns the equal item of the other set, whose type may differ.
  Ref byItem(PyDict_New());
  return byItem &&
         forEachItem(value,
                     [&](PyObject *item) {
                       return !PyDict_SetItem(byItem.get(), item, item);
                     }) &&
         forEachItem(known, [&](PyObject *item) {
           PyObject *found = PyDict_GetItemWithError(byItem.get(), item);
           return found && sameValue(found, item);
         });
}

bool isEqual(PyObject *value, PyObject *known) {
  Ref equal(PyObject_RichCompare(value, known, Py_EQ));
  return equal.get() == Py_True;
}

} // namespace

bool anabranch::python::sameValue(PyObject *value, PyObject *known) {
  if (value == known)
    return true;
  if (Py_TYPE(value) != Py_TYPE(known) || PyType_Check(known) ||
      PyBool_Check(known))
    return false;
  if (PyFloat_CheckExact(known))
    return sameDouble(PyFloat_AsDouble(value), PyFloat_AsDouble(known));
  if (PyComplex_CheckExact(known))
    return sameComplex(value, known);
  if (PyTuple_Check(known))
    return sameTuple(value, known);
  bool same =
      PyFrozenSet_Check(known) ? sameSet(value, known) : isEqual(value, known);
  PyErr_Clear();
  return same;
}
