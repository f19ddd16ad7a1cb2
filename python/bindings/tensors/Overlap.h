//===- Overlap.h - whether a result is a view of an argument ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_BINDINGS_OVERLAP_H
#define ANABRANCH_BINDINGS_OVERLAP_H

#include "anabranch/HostCalls.h"

namespace anabranch::python {

/// Whether the bytes of `result` and of a tensor among the arguments meet.
bool overlaps(const TensorView &result, const HostArgument *arguments,
              size_t count);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_OVERLAP_H
