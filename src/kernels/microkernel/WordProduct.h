//===- WordProduct.h - products of vectors of words -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A word is as large as an accumulator. It holds one element, or several
// narrower ones that are neighbours along the depth. Their number is the K-pack
// (VNNI) factor: two bf16 or four bytes. Multiplying two words adds the
// products of all their elements to one sum.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_WORDPRODUCT_H
#define ANABRANCH_KERNELS_MICROKERNEL_WORDPRODUCT_H

#include "kernels/microkernel/Int8Dot.h"

#include <optional>

namespace anabranch {
namespace kernels {

/// Bytes of a word in registers of tiles and matrices.
constexpr int64_t wordBytes = 4;

struct WordProduct {
  /// Set if a word is four bytes.
  std::optional<Int8Dot> int8 = std::nullopt;
  /// How words of two bf16 are multiplied, if words are pairs.
  enum class Pairs {
    None,
    Dot,  ///< one instruction adds both products
    Split ///< both are widened to f32, for two FMAs
  };
  Pairs pairs = Pairs::None;

  /// Whether two words of two rows and of two columns are multiplied at once
  /// (MatrixBlock.h). Panels then have two words of a column side by side.
  bool isMatrix = false;
  /// The product of matrices of such words.
  native::Isa::MatrixProduct matrices() const;

  /// The number of elements of the accumulators' type into which a word is
  /// split.
  int64_t parts() const { return pairs == Pairs::Split ? 2 : 1; }

  /// Vectors of words in the form that `add` takes, made once for all their
  /// uses.
  using Factor = Int8Dot::Factor;
  Factor left(LaneBuilder &lanes, mlir::Value words) const;
  Factor right(LaneBuilder &lanes, mlir::Value words) const;

  /// sum + left * right. For floats it rounds once.
  mlir::Value add(LaneBuilder &lanes, mlir::Value sum, const Factor &left,
                  const Factor &right) const;
};

/// The sum of all lanes. Floats are added in any order.
mlir::Value sumLanes(LaneBuilder &lanes, mlir::Value vector);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_WORDPRODUCT_H
