//===- Gil.h - giving the GIL away and taking it ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// If a thread asks for the GIL while the interpreter is finalizing, CPython
// before 3.14 unwinds its stack by force. A destructor on the stack then aborts
// the process. These classes let such a thread wait until the process ends, as
// newer CPythons do.

#ifndef ANABRANCH_BINDINGS_GIL_H
#define ANABRANCH_BINDINGS_GIL_H

#include <Python.h>

namespace anabranch::python {

/// Releases the GIL while this object lives.
class GilReleased {
public:
  GilReleased() : thread(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased &) = delete;
  GilReleased &operator=(const GilReleased &) = delete;

private:
  PyThreadState *thread;
};

/// Holds the GIL while this object lives. Any thread.
class GilTaken {
public:
  GilTaken();
  ~GilTaken() { PyGILState_Release(state); }
  GilTaken(const GilTaken &) = delete;
  GilTaken &operator=(const GilTaken &) = delete;

private:
  PyGILState_STATE state;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_GIL_H
