//===- CodePairs.h - pairs of bf16 from floats of 8 bits --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A bf16 holds every float of eight bits. So tables of the two bytes of a bf16
// turn codes into pairs of bf16, which dot products multiply: the seven bits of
// a magnitude choose the bytes, and the sign is copied.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_CODEPAIRS_H
#define ANABRANCH_KERNELS_MICROKERNEL_CODEPAIRS_H

#include "kernels/emit/Lanes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <array>

namespace anabranch {
namespace kernels {

class CodePairs {
public:
  /// Depths whose codes a word of four bytes has.
  static constexpr int64_t depths = 4;

  /// Whether instructions look up the codes of so many words. `code` must be a
  /// float of eight bits in which -0 and its sign are no NaN.
  static bool exist(const native::Isa &isa, mlir::Type code, int64_t words);

  CodePairs(LaneBuilder &lanes, mlir::FloatType code);

  /// Vectors of words of two bf16, of the type of the sums: those of the first
  /// two codes of each word of `bytes`, and those of the last two.
  std::array<mlir::Value, 2> of(mlir::Value bytes) const;

private:
  LaneBuilder &lanes;
  mlir::FloatType code;

  mlir::Value lookup(mlir::Value codes, int64_t shift) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_CODEPAIRS_H
