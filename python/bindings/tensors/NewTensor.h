//===- NewTensor.h - make result tensors quickly ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_NEWTENSOR_H
#define ANABRANCH_BINDINGS_NEWTENSOR_H

#include "tensors/Shim.h"

#include <Python.h>

namespace anabranch::python {

/// Makes tensors with libtorch's own functions: one object instead of DLPack's
/// three. The function that makes the Python object is no part of the stable
/// interface, so `get` tries it before it is used.
class NewTensor {
public:
  /// Null if this PyTorch lacks the functions. Needs the GIL.
  static const NewTensor *get();

  /// Returns a new tensor and sets `tensor.data`. Null if there is no memory.
  PyObject *make(TensorView &tensor) const;

private:
  using Wrap = PyObject *(*)(const void *tensor);
  NewTensor(const Shim &shim, Wrap wrap) : shim(shim), wrap(wrap) {}
  bool works() const;

  const Shim &shim;
  Wrap wrap;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_NEWTENSOR_H
