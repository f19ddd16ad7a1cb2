//===- Stable.h - parts of objects that the stable ABI hides ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Reads functions, cells, types and instances: from CPython's structures, or
// through attributes if the binding is compiled for the stable ABI. Each
// function returns a reference that is borrowed from the object, or null
// without an error if there is nothing. All functions need the GIL.

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
/// The attribute of this name of the type or of one of its bases.
PyObject *typeAttribute(PyTypeObject *type, PyObject *name);
/// `__code__`, `__defaults__`, `__kwdefaults__` or `__closure__`; None if the
/// function has none.
PyObject *functionSlot(PyObject *function, PyObject *name);
PyObject *cellContents(PyObject *cell);

/// A number that no other state of any dict or type has had. Zero if this
/// CPython does not count changes: callers then compare the contents.
uint64_t dictVersion(PyObject *dict);
uint64_t typeVersion(PyTypeObject *type);

/// Where an object keeps these, for as long as it lives. Null in the stable
/// ABI, and for the version if this CPython does not count changes.
const uint64_t *dictVersionPlace(PyObject *dict);
PyObject **dictPlace(PyObject *object);
PyObject **codePlace(PyObject *function);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_STABLE_H
