//===- AffineIntegers.h - tensors that stand for integers -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A quantised tensor is
//
//   scale * (integers - zero)
//
// with bytes as integers. PyTorch's ways to quantise dequantise it so: by
// conversions, one subtraction and products.

#ifndef ANABRANCH_IMPORT_QUANTIZED_AFFINEINTEGERS_H
#define ANABRANCH_IMPORT_QUANTIZED_AFFINEINTEGERS_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// The tensor that a call converts to another dtype; null for other calls.
mlir::Value convertedBy(ir::AtenOp op);

struct AffineIntegers {
  Operand integers; ///< i8 or u8, of the tensor's sizes
  /// The zero point is a number, plus a tensor of whole numbers that broadcasts
  /// to the integers, if there is one.
  int64_t zeroNumber = 0;
  Operand zeroTensor;
  /// The factors of the scale: numbers, and tensors of floats that broadcast to
  /// the integers.
  double scaleNumber = 1;
  llvm::SmallVector<Operand> scaleTensors;

  /// None if the tensor is made in another way. The integers may be new views
  /// of those that the graph has.
  static std::optional<AffineIntegers> find(LoweringBuilder &b,
                                            mlir::Value tensor);

  bool hasZero() const { return zeroNumber != 0 || zeroTensor; }
  /// Whether the integers are an argument whose values are known to fit into
  /// four bits.
  bool fitsFourBits() const;
  /// Whether scale and zero point do not depend on these dimensions.
  bool isUniformAlong(llvm::ArrayRef<int64_t> dims) const;
  /// Makes the integers signed; the zero point moves with them.
  void makeSigned(LoweringBuilder &b);
  /// The largest distance of an integer from its zero point; none if it is not
  /// known.
  std::optional<int64_t> largest() const;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_QUANTIZED_AFFINEINTEGERS_H
