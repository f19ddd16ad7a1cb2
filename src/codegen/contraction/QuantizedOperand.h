//===- QuantizedOperand.h - a weight of few bits as an operand --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_QUANTIZEDOPERAND_H
#define ANABRANCH_CODEGEN_CONTRACTION_QUANTIZEDOPERAND_H

#include "codegen/contraction/Contraction.h"
#include "ir/QuantizedWeight.h"

namespace anabranch {
namespace codegen {

/// The right operand of a product in the layout of ir/QuantizedWeight.h.
struct QuantizedOperand {
  ir::QuantizedWeight layout;
  /// Numbers of arguments of the kernel.
  unsigned packed, scale;
  std::optional<unsigned> offset;
  int64_t columns, depths;
  mlir::Type scaleElement, offsetElement;

  static std::optional<QuantizedOperand> find(const Contraction &contraction,
                                              std::string &why);
  static std::optional<QuantizedOperand> find(const Contraction &contraction) {
    std::string why;
    return find(contraction, why);
  }
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_QUANTIZEDOPERAND_H
