//===- ArrayCall.h - run a program on buffers of Python objects -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_ARRAYCALL_H
#define ANABRANCH_BINDINGS_ARRAYCALL_H

#include "anabranch/Executable.h"

#include <Python.h>

namespace anabranch::python {

/// Runs the program without PyTorch. An input is an int or a pair of an object
/// with the buffer protocol and the name of its elements' dtype, which the
/// protocol can't say of bfloat16. `make(dtype, shape, strides)` gives an
/// object whose buffer has this shape and these strides, in elements. A list of
/// those objects, ints, Nones and given objects; null with a Python error set.
/// Needs the GIL and releases it while the program runs.
PyObject *runArrays(const Executable &executable, PyObject *inputs,
                    PyObject *make);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_ARRAYCALL_H
