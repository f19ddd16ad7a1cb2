//===- Overlap.cpp - whether a result is a view of an argument ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
