//===- ArrayCall.h - run a program on buffers of Python objects -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_ARRAYCALL_H
#define ANABRANCH_BINDINGS_ARRAYCALL_H

#include "anabranch/Executable.h"

#include <Python.h>

namespace anabranch::python {

/// Runs the program without PyTorch. An input is an int, or a pair of an object
/// with the buffer protocol and the name of its dtype, since the protocol
/// cannot describe bfloat16. `make(dtype, shape, strides)` returns a new object
/// whose buffer has this shape and these strides, in elements. The function
/// returns a list of new objects, ints, Nones and inputs; null with a Python
/// error set. The caller holds the GIL, which the function releases while the
/// program runs.
PyObject *runArrays(const Executable &executable, PyObject *inputs,
                    PyObject *make);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_ARRAYCALL_H
