//===- Int8Dot.h - products of bytes ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A word is four bytes, neighbours along the depth. The bytes of one operand
// may be unsigned, not those of both. Each kind adds the four products of two
// words to a 32-bit sum exactly: none uses an instruction that saturates.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_INT8DOT_H
#define ANABRANCH_KERNELS_MICROKERNEL_INT8DOT_H

#include "kernels/emit/Lanes.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

struct Int8Dot {
  enum class Kind {
    /// The even bytes and the odd ones are widened to 16 bits.
    Widened,
    /// Two signed operands, but the product's first factor is unsigned: the
    /// right bytes plus 128. The sums of a row start at its zero-point
    /// compensation, -128 times the sum of its left bytes.
    Moved,
    Mixed,  ///< an unsigned and a signed operand
    Signed, ///< two signed operands
  };

  Kind kind = Kind::Widened;
  int64_t lanes = 8; ///< words of a vector: 8 or 16
  bool leftIsUnsigned = false, rightIsUnsigned = false;

  static Int8Dot of(const native::TargetInfo &target,
                    bool leftIsUnsigned = false, bool rightIsUnsigned = false);

  /// Whether sums start at a zero-point compensation instead of zero.
  bool needsCompensation() const { return kind == Kind::Moved; }

  /// Vectors of words in the form that `add` takes, made once for all their
  /// uses.
  using Factor = llvm::SmallVector<mlir::Value, 2>;
  Factor left(LaneBuilder &builder, mlir::Value words) const;
  Factor right(LaneBuilder &builder, mlir::Value words) const;

  mlir::Value add(LaneBuilder &builder, mlir::Value sum, const Factor &left,
                  const Factor &right) const;

  /// The sum, plus 128 times the four left bytes of each word: the excess that
  /// a row's compensation cancels.
  mlir::Value addExcess(LaneBuilder &builder, mlir::Value sum,
                        mlir::Value words) const;

private:
  mlir::Value splat(LaneBuilder &builder, int32_t word) const;
  Factor widen(LaneBuilder &builder, mlir::Value words, bool isUnsigned) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_INT8DOT_H
