//===- WordProduct.h - products of vectors of words -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A word is as large as an accumulator. It holds one element, or as many
// narrower ones, neighbours along the depth, as the K-pack (VNNI) factor says:
// two bf16 or four signed bytes. Multiplying two words adds the products of all
// their elements to one sum.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MICROKERNEL_WORDPRODUCT_H
#define ANABRANCH_CODEGEN_MICROKERNEL_WORDPRODUCT_H

#include "codegen/microkernel/Int8Dot.h"

#include <optional>

namespace anabranch {
namespace codegen {

struct WordProduct {
  /// Set if a word is four signed bytes.
  std::optional<Int8Dot> int8 = std::nullopt;
  /// How words of two bf16 are multiplied, if a word is that.
  enum class Pairs {
    None,
    Dot,  ///< vdpbf16ps
    Split ///< both are widened to f32, for two FMAs
  };
  Pairs pairs = Pairs::None;

  /// Elements of the accumulators' type that a word is split into.
  int64_t parts() const { return pairs == Pairs::Split ? 2 : 1; }

  /// Vectors of words as `add` takes them, made once for all their uses.
  using Factor = Int8Dot::Factor;
  Factor left(LaneBuilder &lanes, mlir::Value words) const;
  Factor right(LaneBuilder &lanes, mlir::Value words) const;

  /// Of floats, sum + left * right in one rounding.
  mlir::Value add(LaneBuilder &lanes, mlir::Value sum, const Factor &left,
                  const Factor &right) const;
};

/// The sum of all lanes, of floats in any order.
mlir::Value sumLanes(LaneBuilder &lanes, mlir::Value vector);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MICROKERNEL_WORDPRODUCT_H
