//===- TensorVersions.h - numbers for what tensors hold ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TENSORVERSIONS_H
#define ANABRANCH_BINDINGS_TENSORVERSIONS_H

#include "anabranch/Tensor.h"
#include "support/Ref.h"
#include "tensors/TensorState.h"

#include <vector>

namespace anabranch::python {

/// The versions (InputValue) of tensors that calls pass as watched inputs. All
/// functions need the GIL.
///
/// A version stays as long as calls pass a tensor with the same memory,
/// PyTorch's counter of writes stays, and a sample of the values stays. PyTorch
/// does not count writes through `p.data`, NumPy or another process. The sample
/// finds those that change all values.
class TensorVersions {
public:
  explicit TensorVersions(size_t inputs) : inputs(inputs) {}

  /// The version of this tensor, which is input number `input`. Zero if PyTorch
  /// does not count its writes, as of tensors made in inference mode.
  uint64_t of(size_t input, PyObject *tensor, const TensorView &view);

private:
  struct Known {
    Ref storage; ///< weak: no other storage gets its address
    TensorState state;
    uint64_t sample = 0, version = 0;
  };

  std::vector<Known> inputs;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TENSORVERSIONS_H
