//===- Aarch64Isa.h - NEON and its extensions -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Vectors of 128 bits, in 32 registers, with the products of bytes and of bf16
// that a core offers.

#ifndef ANABRANCH_NATIVE_ISA_AARCH64_AARCH64ISA_H
#define ANABRANCH_NATIVE_ISA_AARCH64_AARCH64ISA_H

#include "native/isa/portable/PortableIsa.h"

#include <memory>

namespace anabranch {
namespace native {

class Aarch64Isa final : public PortableIsa {
public:
  /// The instruction set of LLVM's text of features ("+neon,+dotprod"); none
  /// without NEON.
  static std::shared_ptr<const Isa> create(llvm::StringRef features);

  explicit Aarch64Isa(llvm::StringRef features);

  int64_t vectorRegisters() const override { return 32; }

  bool has(Multiply multiply) const override;
  bool fusesMultiplyAdd() const override { return true; }
  bool hasExtrema() const override { return true; }
  bool hasByteDot(ByteSigns signs, int64_t lanes) const override;
  Value dotBytes(mlir::OpBuilder &b, mlir::Location loc, ByteSigns signs,
                 Value sum, Value first, Value second) const override;
  Value lookupIn(mlir::OpBuilder &b, mlir::Location loc, Value table,
                 Value index) const override;
  Value dotShorts(mlir::OpBuilder &b, mlir::Location loc, Value first,
                  Value second) const override;
  Value dotBF16(mlir::OpBuilder &b, mlir::Location loc, Value sum, Value first,
                Value second) const override;
  bool hasMatrices(MatrixProduct product) const override {
    return product == MatrixProduct::BF16 ? bf16 : i8mm;
  }
  Value multiplyMatrices(mlir::OpBuilder &b, mlir::Location loc,
                         MatrixProduct product, Value sum, Value first,
                         Value second) const override;

  bool convertsF16() const override { return true; }
  bool roundsToBF16() const override { return bf16; }
  Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc,
                    Value floats) const override;
  Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc, Value first,
                    Value second) const override;

private:
  bool neon, fullFp16;
  bool dotProd; ///< four products of bytes of the same sign
  bool i8mm;    ///< of an unsigned byte and a signed one, too, and of matrices
  bool bf16;    ///< products of pairs and of matrices, and rounding
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_AARCH64_AARCH64ISA_H
