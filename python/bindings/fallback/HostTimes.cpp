//===- HostTimes.cpp - the time of one call in PyTorch's operators --------===//
// SPDX-License-Identifier: Apache-2.0

#include "fallback/HostTimes.h"
#include "support/Ref.h"

using namespace anabranch::python;

thread_local HostTimes *HostTimes::current = nullptr;

PyObject *HostTimes::tell(PyObject *listener) const {
  double whole = since(begun);
  Ref operators(PyDict_New());
  for (const auto &[about, time] : seconds) {
    Ref key(Py_BuildValue("(ss)", about.first.c_str(), about.second.c_str()));
    Ref value(PyFloat_FromDouble(time));
    if (!operators || !key || !value ||
        PyDict_SetItem(operators.get(), key.get(), value.get()) != 0)
      return nullptr;
  }
  return PyObject_CallFunction(listener, "dO", whole, operators.get());
}
