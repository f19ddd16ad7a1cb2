//===- Gil.h - giving the GIL away and taking it ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A thread that asks for the GIL while the interpreter is going away is ended
// by CPython in the middle of what it does: the stack is unwound by force,
// which no destructor survives and which ends the process with an abort. Such a
// thread stands still here instead, as newer CPythons have it, until the
// process ends.

#ifndef ANABRANCH_BINDINGS_GIL_H
#define ANABRANCH_BINDINGS_GIL_H

#include <Python.h>

namespace anabranch::python {

/// The GIL is away while this lives.
class GilReleased {
public:
  GilReleased() : thread(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased &) = delete;
  GilReleased &operator=(const GilReleased &) = delete;

private:
  PyThreadState *thread;
};

/// The GIL is held while this lives, by any thread.
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
