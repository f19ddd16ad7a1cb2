//===- Ref.h - an owned reference to a Python object ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_REF_H
#define ANABRANCH_BINDINGS_REF_H

#include <Python.h>
#include <memory>

namespace anabranch::python {

/// Releases a reference; for std::unique_ptr.
struct Unref {
  void operator()(PyObject *object) const { Py_XDECREF(object); }
};

/// A reference that this code owns. Its end needs the GIL.
using Ref = std::unique_ptr<PyObject, Unref>;

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_REF_H
