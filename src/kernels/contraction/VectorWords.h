//===- VectorWords.h - what vector registers multiply -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_VECTORWORDS_H
#define ANABRANCH_KERNELS_CONTRACTION_VECTORWORDS_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Up to this many rows, reading the right operand takes most of the time.
constexpr int64_t fewRows = 8;

/// The cost of widening the right operand in registers: instructions for each
/// vector and depth, and the registers that a vector takes.
struct Widening {
  double instructions = 0;
  int64_t registers = 1;

  static Widening of(const Contraction &contraction, const Word &word);
  /// Of floats of eight bits that become pairs.
  static Widening ofCodes();
  /// Whether so many rows read a vector that storing it widened costs less than
  /// widening it in each block of rows.
  bool paysOnce(int64_t rows) const;
};

/// The words of a product in vector registers.
struct VectorWords {
  int64_t lanes; ///< of a vector of accumulators
  Word word;
  /// Whether panels of pairs are split once, in a copy. The copy has no pairs.
  bool splitsPanels = false;
  /// The floats of eight bits of which blocks make pairs; null if they do not.
  mlir::FloatType codes = {};

  static VectorWords choose(const Contraction &contraction,
                            const native::TargetInfo &target);

  /// Whether the right operand is in panels of such words.
  bool readsPanels(const Contraction &contraction) const;
};

/// The words into which constants are packed: the widest that the processor
/// multiplies.
Word widestWord(const Contraction &contraction,
                const native::TargetInfo &target);

/// Whether the micro-kernel can load and widen this type.
bool isLoadable(mlir::Type type, mlir::Type element);
/// Whether panels of this type can be read in place.
bool isPackable(mlir::Type type, mlir::Type element, const Word &word);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_VECTORWORDS_H
