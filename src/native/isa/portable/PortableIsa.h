//===- PortableIsa.h - plain vectors, for any processor ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Emits nothing but LLVM's own vectors, so that every backend has code for it.
// The instruction sets of processors refine it.

#ifndef ANABRANCH_NATIVE_ISA_PORTABLE_PORTABLEISA_H
#define ANABRANCH_NATIVE_ISA_PORTABLE_PORTABLEISA_H

#include "native/isa/Isa.h"

namespace anabranch {
namespace native {

class PortableIsa : public Isa {
public:
  int64_t vectorBytes() const override { return 16; }
  int64_t vectorRegisters() const override { return 16; }
  const Tiles *tiles() const override { return nullptr; }
  bool hasGather(int64_t) const override { return false; }
  bool loadsAtDistance() const override { return false; }

  bool has(Multiply multiply) const override;
  bool fusesMultiplyAdd() const override { return false; }
  bool hasExtrema() const override { return false; }
  bool hasByteDot(ByteSigns, int64_t) const override { return false; }
  Value dotBytes(mlir::OpBuilder &b, mlir::Location loc, ByteSigns signs,
                 Value sum, Value first, Value second) const override;
  Value dotShorts(mlir::OpBuilder &b, mlir::Location loc, Value first,
                  Value second) const override;
  Value dotBF16(mlir::OpBuilder &b, mlir::Location loc, Value sum, Value first,
                Value second) const override;
  bool hasMatrices(MatrixProduct) const override { return false; }
  Value multiplyMatrices(mlir::OpBuilder &b, mlir::Location loc,
                         MatrixProduct product, Value sum, Value first,
                         Value second) const override;

  bool convertsF16() const override { return false; }
  bool roundsToBF16() const override { return false; }
  Value roundToBF16(mlir::OpBuilder &, mlir::Location, Value) const override {
    return {};
  }
  Value roundToBF16(mlir::OpBuilder &, mlir::Location, Value,
                    Value) const override {
    return {};
  }

  bool hasScale(mlir::Type) const override { return false; }
  Value scale(mlir::OpBuilder &b, mlir::Location loc, Value a,
              Value n) const override;
  bool hasLookup(mlir::Type) const override { return false; }
  Value lookupIn(mlir::OpBuilder &b, mlir::Location loc, Value table,
                 Value index) const override;
  Value lookup(mlir::OpBuilder &b, mlir::Location loc,
               mlir::DenseElementsAttr table, Value index) const override;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_PORTABLE_PORTABLEISA_H
