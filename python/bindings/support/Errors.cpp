//===- Errors.cpp - what went wrong, as a Python exception ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/Errors.h"

using namespace anabranch;
using namespace anabranch::python;

namespace {

/// The exception that caused a HostError, while the runtime unwinds.
struct Stash {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
};
thread_local Stash stash;

/// Eager PyTorch has an IndexError for some operators and a RuntimeError for
/// others. A handler that is written for either one catches this.
PyObject *indexError() {
  static PyObject *type = nullptr;
  if (!type) {
    PyObject *bases = PyTuple_Pack(2, PyExc_IndexError, PyExc_RuntimeError);
    type = PyErr_NewException("anabranch._C.IndexOutOfRange", bases, nullptr);
    Py_XDECREF(bases);
  }
  return type ? type : PyExc_IndexError;
}

PyObject *exceptionFor(StatusCode code) {
  switch (code) {
  case StatusCode::InvalidArgument:
    return PyExc_ValueError;
  case StatusCode::TypeError:
    return PyExc_TypeError;
  case StatusCode::IndexError:
    return indexError();
  case StatusCode::OutOfMemory:
    return PyExc_MemoryError;
  case StatusCode::IoError:
    return PyExc_OSError;
  case StatusCode::ZeroDivision: // as eager PyTorch says it
  case StatusCode::BadPackage:
  case StatusCode::Unsupported:
  case StatusCode::HostError:
  case StatusCode::Internal:
  case StatusCode::Ok:
    break;
  }
  return PyExc_RuntimeError;
}

PyObject *compileError() {
  PyObject *module = PyImport_ImportModule("anabranch.errors");
  PyObject *type =
      module ? PyObject_GetAttrString(module, "CompileError") : nullptr;
  Py_XDECREF(module);
  return type;
}

} // namespace

void python::setError(const Status &status) {
  if (status.code() == StatusCode::HostError && stash.type) {
    PyErr_Restore(stash.type, stash.value, stash.traceback);
    stash = {};
    return;
  }
  PyErr_SetString(exceptionFor(status.code()), status.message().c_str());
}

PyObject *python::sharedMemoryError() {
  static PyObject *type = nullptr;
  if (!type)
    type = PyErr_NewException("anabranch._C.SharedMemoryError",
                              PyExc_ValueError, nullptr);
  return type;
}

void python::setError(anabranch_compile_status status, const char *message) {
  if (status == ANABRANCH_COMPILE_CANCELLED) {
    if (!PyErr_Occurred())
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    return;
  }
  PyObject *type = compileError();
  if (!type)
    return;
  if (status == ANABRANCH_COMPILE_INTERNAL_ERROR)
    PyErr_Format(type, "internal error: %s", message);
  else
    PyErr_SetString(type, message);
  Py_DECREF(type);
}

Status python::stashError() {
  Py_CLEAR(stash.type);
  Py_CLEAR(stash.value);
  Py_CLEAR(stash.traceback);
  PyErr_Fetch(&stash.type, &stash.value, &stash.traceback);
  PyErr_NormalizeException(&stash.type, &stash.value, &stash.traceback);
  PyObject *text = stash.value ? PyObject_Str(stash.value) : nullptr;
  const char *message = text ? PyUnicode_AsUTF8AndSize(text, nullptr) : nullptr;
  Status status(StatusCode::HostError, message ? message : "a call failed");
  Py_XDECREF(text);
  PyErr_Clear();
  return status;
}
