//===- Gil.cpp - giving the GIL away and taking it ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/Gil.h"

#include <cxxabi.h>
#include <unistd.h>

using namespace anabranch::python;

[[noreturn]] static void standStill() {
  for (;;)
    ::pause();
}

GilReleased::~GilReleased() {
  try {
    PyEval_RestoreThread(thread);
  } catch (abi::__forced_unwind &) {
    standStill();
  }
}

static PyGILState_STATE ensure() {
  try {
    return PyGILState_Ensure();
  } catch (abi::__forced_unwind &) {
    standStill();
  }
}

GilTaken::GilTaken() : state(ensure()) {}
