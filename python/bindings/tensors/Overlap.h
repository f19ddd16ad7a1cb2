//===- Overlap.h - tensors that share memory --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_OVERLAP_H
#define ANABRANCH_BINDINGS_OVERLAP_H

#include "anabranch/HostCalls.h"

#include <vector>

namespace anabranch::python {

/// Whether `result` shares a byte with a tensor among the arguments.
bool overlaps(const TensorView &result, const HostArgument *arguments,
              size_t count);

/// Whether one of the tensors with the numbers `written` may share memory with
/// another tensor. A tensor without a data pointer shares none.
bool shareMemory(const std::vector<TensorView> &tensors,
                 const std::vector<size_t> &written);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_OVERLAP_H
