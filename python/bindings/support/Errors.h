//===- Errors.h - what went wrong, as a Python exception --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `support` has what all others need of Python. Start here.
//
//   Errors      turns a status into a Python exception
//   Gil         gives the GIL away and takes it
//   Ref         an owned reference to a Python object
//   Items       items of tuples, lists and dicts
//   SmallArray  memory of one call, on the stack
//   Stable      parts of objects that CPython's stable ABI hides

#ifndef ANABRANCH_BINDINGS_ERRORS_H
#define ANABRANCH_BINDINGS_ERRORS_H

#include "anabranch/Compiler.h"
#include "anabranch/Status.h"

#include <Python.h>

namespace anabranch::python {

/// Sets the Python error for a failed status; needs the GIL.
void setError(const Status &status);

/// The exception of calls whose arguments share memory that the program writes,
/// a ValueError: nothing has run. A borrowed reference, null with a Python
/// error set; needs the GIL.
PyObject *sharedMemoryError();

/// Sets the Python error for a failed compilation. A cancelled one leaves the
/// exception that cancelled it; needs the GIL.
void setError(anabranch_compile_status status, const char *message);

/// Saves the current Python error and returns a status for it. `setError`
/// restores the error on the same thread. Needs the GIL.
Status stashError();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_ERRORS_H
