//===- QuantizedBlocking.h - how a quantised product is cut up --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The rows of the left operand become fixed-point numbers, with one scale for
// each block of depths, and with so many digits that they are as exact as the
// operand's type, unless the weight's mark allows fewer bits. The digits are
// small integers. So instructions multiply them by the weight's integers
// exactly, four products to one 32-bit sum. At the end of each block the sums
// become f32 and are multiplied by both scales.

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDBLOCKING_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDBLOCKING_H

#include "kernels/contraction/ProductLayout.h"
#include "kernels/contraction/QuantizedOperand.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// The format of numbers as digits to the base 2^bits. The last digit has the
/// sign.
struct DigitFormat {
  int64_t count; ///< digits of a number
  int64_t bits;  ///< of the base
  int64_t bytes; ///< of a digit in memory
  /// The largest number, minus the rounding of the division by it.
  int64_t largest;
};

struct QuantizedBlocking {
  int64_t lanes;   ///< of a vector of sums
  int64_t rows;    ///< of a block of accumulators
  int64_t vectors; ///< of a block, side by side
  int64_t depth;   ///< depths that share a scale of the left operand
  DigitFormat digits;
  /// One instruction multiplies the bytes of a word; otherwise digits have 16
  /// bits.
  bool dots;
  /// One instruction multiplies two digits by two columns.
  bool matrices = false;
  /// tile registers hold the sums of all columns of a panel.
  bool usesTiles = false;
  /// Each tile makes the digits of its rows. Otherwise the tiles of a launch
  /// have all rows, and share their digits.
  bool hasOwnDigits = false;
  /// For the parts that other products share.
  ProductLayout layout;

  /// Depths of one product of two tile registers.
  int64_t tileDepths() const { return depth < 64 ? depth : 64; }

  /// The unit that multiplies the digits.
  enum class Unit { Vectors, Tiles };
  /// None, and why, if the unit cannot multiply them, or pays for more rows
  /// only.
  static std::optional<QuantizedBlocking>
  choose(const Contraction &contraction, const QuantizedOperand &weight,
         const native::TargetInfo &target, Unit unit, std::string &why);

  /// Estimated cycles of one core for all tiles. A size that is not known
  /// counts as ir::typicalSize.
  double cycles(const Contraction &contraction, const QuantizedOperand &weight,
                const native::TargetInfo &target) const;

private:
  /// Multiply-adds of a digit and an integer in a cycle.
  double rate(const native::TargetInfo &target) const;
  double cyclesOfDigits(double rows, const QuantizedOperand &weight,
                        const native::TargetInfo &target) const;
};

/// Products of more rows do better with panels of floats, if their numbers have
/// several digits.
constexpr int64_t mostQuantizedRows = 32;

/// Whether the product's rows are multiplied as digits.
bool hasQuantizedRows(const Contraction &contraction,
                      const QuantizedOperand &weight,
                      const native::TargetInfo &target);

/// Whether a kernel would read the product's right operand in few bits: by
/// digits, or through panels of floats that each tile makes.
bool wantsQuantizedWeight(const Contraction &contraction,
                          const native::TargetInfo &target);

/// Whether matrix instructions multiply bytes that have nibbles of two columns.
bool wantsPairsOfColumns(const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDBLOCKING_H
