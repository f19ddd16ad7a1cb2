//===- Padding.h - run in a program of larger sizes -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SHAPES_PADDING_H
#define ANABRANCH_RUNTIME_SHAPES_PADDING_H

#include "runtime/load/LoadedProgram.h"

namespace anabranch::runtime {

/// Runs `program` on copies of the inputs, filled up with zeros to the sizes
/// that the program was made for. Returns the results cut as `cuts` says. The
/// compiler has proved that the filling changes no result.
Status runPadded(const LoadedProgram &program,
                 const std::vector<package::PaddedDim> &cuts,
                 const InputValue *inputs, size_t inputCount,
                 OutputValue *outputs, size_t outputCount,
                 OutputAllocator &allocator);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SHAPES_PADDING_H
