//===- Overlap.cpp - tensors that share memory ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "tensors/Overlap.h"

using namespace anabranch;

bool python::overlaps(const TensorView &result, const HostArgument *arguments,
                      size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].kind == HostArgument::Kind::List &&
        overlaps(result, arguments[i].items, arguments[i].itemCount))
      return true;
    if (arguments[i].kind == HostArgument::Kind::Tensor &&
        mayOverlap(result, arguments[i].tensor))
      return true;
  }
  return false;
}

bool python::shareMemory(const std::vector<TensorView> &tensors,
                         const std::vector<size_t> &written) {
  for (size_t one : written)
    for (size_t other = 0; other < tensors.size(); ++other)
      if (other != one && tensors[one].data && tensors[other].data &&
          mayOverlap(tensors[one], tensors[other]))
        return true;
  return false;
}
