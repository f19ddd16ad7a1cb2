//===- SameValue.h - whether a value is what the trace saw ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_SAMEVALUE_H
#define ANABRANCH_BINDINGS_SAMEVALUE_H

#include <Python.h>

namespace anabranch::python {

/// Whether `value` is the constant `known` that a trace saw. The rule is that
/// of `same` in python/anabranch/method_cache/lookup/same_value.py, and a
/// property test compares the two. Leaves no error set. Needs the GIL.
bool sameValue(PyObject *value, PyObject *known);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SAMEVALUE_H
