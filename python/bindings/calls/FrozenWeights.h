//===- FrozenWeights.h - tensors whose values were frozen -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A program holds copies of frozen weights. The user keeps the tensors that
// they were copied from and may write to them, so every call asks whether a
// tensor has changed.

#ifndef ANABRANCH_BINDINGS_FROZENWEIGHTS_H
#define ANABRANCH_BINDINGS_FROZENWEIGHTS_H

#include "support/Ref.h"
#include "tensors/DLPack.h"
#include "tensors/TensorState.h"

#include <vector>

namespace anabranch::python {

/// Weak references to tensors, and the states that the tensors had when they
/// were added. All functions need the GIL.
class FrozenWeights {
public:
  FrozenWeights() = default;
  FrozenWeights(FrozenWeights &&) = default;
  FrozenWeights(const FrozenWeights &) = delete;

  /// Notes the state of a tensor. Throws nanobind's python_error.
  void add(PyObject *tensor);

  /// Whether no tensor was written, replaced or freed. Takes nanoseconds for
  /// each tensor.
  bool unchanged() const;
  /// The numbers of the tensors that were written, replaced or freed.
  std::vector<size_t> changed() const;
  /// Whether each tensor still exists, with the dtype, sizes and strides that
  /// it had when it was added.
  bool sameLayout() const;

  size_t size() const { return weights.size(); }
  /// A new reference to the tensor, or to None if it was freed.
  PyObject *tensor(size_t number) const;

private:
  struct Weight {
    Ref reference; ///< weak, to the tensor
    /// Weak, to the storage: no other one gets its address.
    Ref storage;
    bool counts;
    TensorState state;
    dlpack::DataType dtype;
    std::vector<int64_t> sizes, strides;
  };
  static bool isUnchanged(const Weight &weight);
  static bool hasLayout(const Weight &weight);

  std::vector<Weight> weights;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_FROZENWEIGHTS_H
