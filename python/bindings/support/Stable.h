//===- Stable.h - parts of objects that the stable ABI hides ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The inside of functions, cells, types and instances: from CPython's
// structures, or through attributes where the binding is compiled for the
// stable ABI. What is returned is borrowed from the object, which keeps it;
// null without an error where there is none. All needs the GIL.

#ifndef ANABRANCH_BINDINGS_STABLE_H
#define ANABRANCH_BINDINGS_STABLE_H

#include <Python.h>
#include <cstdint>
#include <string>

namespace anabranch::python {

/// "int", as errors spell the type of an object.
std::string typeName(PyObject *object);

bool isFunction(PyObject *object);
bool isCell(PyObject *object);

/// The instance's own `__dict__`.
PyObject *dictOf(PyObject *object);
/// What the type or one of its bases has under this name.
PyObject *typeAttribute(PyTypeObject *type, PyObject *name);
/// `__code__`, `__defaults__`, `__kwdefaults__` or `__closure__`; None where
/// the function has no such thing.
PyObject *functionSlot(PyObject *function, PyObject *name);
PyObject *cellContents(PyObject *cell);

/// A number that no other state of any dict or type has had; 0 where CPython
/// does not count or does not say, which is never equal.
uint64_t dictVersion(PyObject *dict);
uint64_t typeVersion(PyTypeObject *type);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_STABLE_H
