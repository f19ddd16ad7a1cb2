//===- QuantizedOperand.h - a weight of few bits as an operand --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_QUANTIZEDOPERAND_H
#define ANABRANCH_KERNELS_CONTRACTION_QUANTIZEDOPERAND_H

#include "ir/QuantizedWeight.h"
#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"

namespace anabranch {
namespace kernels {

/// The right operand of a product in the layout of ir/QuantizedWeight.h.
struct QuantizedOperand {
  ir::QuantizedWeight layout;
  /// Numbers of arguments of the kernel.
  unsigned packed;
  std::optional<unsigned> scale, offset, table;
  int64_t columns, depths;
  mlir::Type scaleElement, offsetElement;

  static std::optional<QuantizedOperand> find(const Contraction &contraction,
                                              std::string &why);
  static std::optional<QuantizedOperand> find(const Contraction &contraction) {
    std::string why;
    return find(contraction, why);
  }

  /// The weight's floats of eight bits, if blocks of a product of pairs make
  /// the pairs of them in registers; else null.
  static mlir::FloatType codesIn(const Contraction &contraction,
                                 const Word &word, const native::Isa &isa,
                                 int64_t lanes);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_QUANTIZEDOPERAND_H
