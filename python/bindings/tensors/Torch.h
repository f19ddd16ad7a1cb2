//===- Torch.h - PyTorch as this process has it -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `tensors` takes tensors in and out of programs. Start here.
//
//   Torch        PyTorch as this process has it
//   DLPack       the memory layouts of the DLPack standard
//   Shim         libtorch's stable C functions, found at run time
//   NewTensor    makes the tensors of results
//   TensorState  whether a tensor was changed
//   Overlap      whether tensors share memory
//
// Tensors cross by the DLPack exchange API that torch.Tensor carries, so the
// binding needs no header of libtorch.

#ifndef ANABRANCH_BINDINGS_TORCH_H
#define ANABRANCH_BINDINGS_TORCH_H

#include "anabranch/Tensor.h"
#include "tensors/DLPack.h"

#include <Python.h>
#include <optional>

namespace anabranch::python {

/// None for a dtype that no program can have.
std::optional<DType> fromDLPack(dlpack::DataType dtype);
dlpack::DataType toDLPack(DType dtype);

/// torch.Tensor's exchange API. All functions need the GIL.
class Torch {
public:
  /// Imports PyTorch once. Throws nanobind's python_error if there is no usable
  /// PyTorch.
  static const Torch &get();

  bool isTensor(PyObject *object) const {
    PyTypeObject *type = Py_TYPE(object);
    return type == tensorType || type == parameterType ||
           PyType_IsSubtype(type, tensorType);
  }

  /// Fills `out` with a view of a tensor, which the caller keeps alive and
  /// which owns `shape` and `strides`. False with a Python error set if the
  /// tensor has no plain memory.
  bool view(PyObject *tensor, dlpack::Tensor &out) const {
    return api->tensorFromObject(tensor, &out) == 0;
  }

  /// A new tensor of this shape and these strides (null: contiguous); `data` is
  /// set to its memory. Null with a Python error set.
  PyObject *allocate(TensorView &tensor) const;

  /// Takes the tensor over. Null with a Python error set.
  PyObject *toObject(dlpack::ManagedTensor *tensor) const;
  /// A new reference to a tensor's memory. Null with a Python error set.
  dlpack::ManagedTensor *fromObject(PyObject *tensor) const;
  /// A tensor object over memory that the caller keeps alive.
  PyObject *borrow(const TensorView &tensor) const;

private:
  Torch();
  PyObject *allocateByDLPack(TensorView &tensor) const;
  const dlpack::ExchangeAPI *api = nullptr;
  PyTypeObject *tensorType = nullptr;
  PyTypeObject *parameterType = nullptr;
};

/// The runtime's view of a DLPack tensor's memory.
TensorView viewOf(const dlpack::Tensor &tensor, DType dtype);

/// Whether the tensor is row-major without gaps.
bool isContiguous(const dlpack::Tensor &tensor);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCH_H
