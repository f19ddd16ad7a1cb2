//===- VectorWords.cpp - what vector registers multiply -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/VectorWords.h"

#include "kernels/contraction/QuantizedOperand.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

using Pairs = WordProduct::Pairs;

Widening Widening::of(const Contraction &contraction, const Word &word) {
  if (word.product.pairs == Pairs::Split)
    return {1, 2};
  Type narrow = contraction.narrow();
  if (word.kPack > 1 || !narrow || !isa<FloatType>(narrow))
    return {};
  // One instruction brings the elements to their lanes, and one widens them.
  return {2, 1};
}

/// Lookups and shuffles make two vectors of words from one of codes, while
/// other units multiply.
Widening Widening::ofCodes() { return {1, 2}; }

bool Widening::paysOnce(int64_t rows) const {
  constexpr double rowsOfBlock = 12, storing = 3;
  return rows / rowsOfBlock * instructions > instructions + storing;
}

/// The faster of the ways in which the processor can multiply pairs of bf16.
static Pairs choosePairs(const Contraction &contraction,
                         const native::TargetInfo &target) {
  Type narrow = contraction.narrow();
  if (!narrow || !narrow.isBF16() || !contraction.element.isF32())
    return Pairs::None;
  bool dots = target.rate(native::Multiply::DotBF16) >
              target.rate(native::Multiply::FmaF32);
  return dots ? Pairs::Dot : Pairs::Split;
}

/// Whether matrix instructions multiply such words.
static bool multipliesMatrices(const native::TargetInfo &target,
                               const Word &word) {
  bool isProduct = word.product.int8 ? !word.needsCompensation()
                                     : word.product.pairs == Pairs::Dot;
  return isProduct && target.isa().hasMatrices(word.product.matrices());
}

Word widestWord(const Contraction &contraction,
                const native::TargetInfo &target) {
  Word word;
  if (contraction.multipliesInt8()) {
    word.kPack = 4;
    word.product.int8 = Int8Dot::of(target, contraction.left.isUnsigned(),
                                    contraction.right.isUnsigned());
    word.product.isMatrix = multipliesMatrices(target, word);
    return word;
  }
  word.product.pairs = choosePairs(contraction, target);
  word.kPack = word.product.pairs == Pairs::None ? 1 : 2;
  word.product.isMatrix = multipliesMatrices(target, word);
  return word;
}

bool isLoadable(Type type, Type element) {
  return type && (type == element ||
                  (element.isF32() && (type.isBF16() || type.isF16())));
}

bool isPackable(Type type, Type element, const Word &word) {
  return word.holdsBytes() ? type && type.isInteger(8)
                           : isLoadable(type, element);
}

bool VectorWords::readsPanels(const Contraction &contraction) const {
  const auto &panels = contraction.right.panels;
  return panels && panels->width % lanes == 0 &&
         panels->kPack == word.panelPack() &&
         isPackable(contraction.right.memory, contraction.element, word);
}

/// Whether so many rows read panels of pairs that splitting them once, for all
/// blocks of rows, costs less than splitting them in registers.
static bool splitsPanelsOnce(const Contraction &contraction,
                             const VectorWords &words) {
  auto rows = contraction.rowsTogether();
  return words.word.product.pairs == Pairs::Split && rows &&
         Widening::of(contraction, words.word).paysOnce(*rows) &&
         words.readsPanels(contraction);
}

/// Whether the right operand is copied without a transposition. Widening it in
/// the copy then costs less than making pairs that are split later.
static bool widensInCopy(const Contraction &contraction,
                         const VectorWords &words) {
  return words.word.product.pairs == Pairs::Split &&
         !words.readsPanels(contraction) &&
         contraction.right.unitLoop != contraction.depth;
}

/// Whether pairs of a live operand would be made of columns that a product of
/// few rows can read in place at less cost.
static bool readsFewRowsInPlace(const Contraction &contraction,
                                const VectorWords &words) {
  auto rows = contraction.rowsTogether();
  return words.word.kPack == 2 && rows && *rows <= fewRows &&
         !contraction.right.panels && !contraction.right.isWindow &&
         contraction.right.unitLoop == contraction.column &&
         isLoadable(contraction.right.memory, contraction.element);
}

VectorWords VectorWords::choose(const Contraction &contraction,
                                const native::TargetInfo &target) {
  VectorWords words{target.lanes(contraction.element.getIntOrFloatBitWidth()),
                    widestWord(contraction, target)};
  // Other copies of operands are made for products of single words.
  words.word.product.isMatrix &=
      words.readsPanels(contraction) || QuantizedOperand::find(contraction);
  words.splitsPanels = splitsPanelsOnce(contraction, words);
  if (words.splitsPanels || readsFewRowsInPlace(contraction, words) ||
      widensInCopy(contraction, words))
    words.word = Word();
  words.codes = QuantizedOperand::codesIn(contraction, words.word, target.isa(),
                                          words.lanes);
  words.word.product.isMatrix &= !words.codes;
  return words;
}

} // namespace kernels
} // namespace anabranch
