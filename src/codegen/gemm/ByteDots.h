//===- ByteDots.h - products of signed bytes --------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A word is four signed bytes, neighbours along the depth. Adding the four
// products of two words to a sum of 32 bits is exact in each of these ways: no
// instruction that saturates is used.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_BYTEDOTS_H
#define ANABRANCH_CODEGEN_GEMM_BYTEDOTS_H

#include "codegen/emit/Lanes.h"
#include "codegen/target/Target.h"

namespace anabranch {
namespace codegen {

struct ByteDots {
  enum class Kind {
    /// vpmaddwd of the even bytes and of the odd ones, widened to 16 bits.
    Halves,
    /// vpdpbusd, whose first factor is unsigned: the right bytes plus 128. Sums
    /// start at -128 times the sum of the left bytes.
    Unsigned,
    Signed, ///< vpdpbssd
  };

  Kind kind = Kind::Halves;
  int64_t lanes = 8; ///< words of a vector: 8 or 16

  static ByteDots of(const TargetInfo &target);

  /// Whether sums start elsewhere than at zero.
  bool needsStarts() const { return kind == Kind::Unsigned; }

  /// Vectors of words as `add` takes them, made once for all their uses.
  using Ready = llvm::SmallVector<mlir::Value, 2>;
  Ready left(LaneBuilder &builder, mlir::Value words) const;
  Ready right(LaneBuilder &builder, mlir::Value words) const;

  mlir::Value add(LaneBuilder &builder, mlir::Value sum, const Ready &left,
                  const Ready &right) const;

  /// The sum, plus 128 times the four bytes of each word on the left: what has
  /// to be taken away where sums need starts.
  mlir::Value addExcess(LaneBuilder &builder, mlir::Value sum,
                        mlir::Value words) const;

private:
  mlir::Value splat(LaneBuilder &builder, int32_t word) const;
  Ready halves(LaneBuilder &builder, mlir::Value words) const;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_BYTEDOTS_H
