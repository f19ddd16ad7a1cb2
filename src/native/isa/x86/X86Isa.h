//===- X86Isa.h - AVX2, AVX-512, AMX and their extensions -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Processors with AVX2 and FMA at least. The vectors have 256 bits, or 512 with
// AVX-512.

#ifndef ANABRANCH_NATIVE_ISA_X86_X86ISA_H
#define ANABRANCH_NATIVE_ISA_X86_X86ISA_H

#include "native/isa/portable/PortableIsa.h"
#include "native/isa/x86/AmxTiles.h"
#include "native/isa/x86/X86Features.h"

#include <memory>

namespace anabranch {
namespace native {

class X86Isa final : public PortableIsa {
public:
  explicit X86Isa(const X86Features &features) : features(features) {}

  /// The instruction set of these features; none without AVX2 and FMA.
  static std::shared_ptr<const Isa> create(llvm::StringRef features);

  int64_t vectorBytes() const override { return features.avx512 ? 64 : 32; }
  int64_t vectorRegisters() const override { return features.avx512 ? 32 : 16; }
  const Tiles *tiles() const override;
  bool hasGather(int64_t bits) const override { return bits >= 32; }
  bool loadsAtDistance() const override { return true; }

  bool has(Multiply multiply) const override;
  bool fusesMultiplyAdd() const override { return true; }
  bool hasByteDot(ByteSigns signs, int64_t lanes) const override;
  Value dotBytes(mlir::OpBuilder &b, mlir::Location loc, ByteSigns signs,
                 Value sum, Value first, Value second) const override;
  Value dotShorts(mlir::OpBuilder &b, mlir::Location loc, Value first,
                  Value second) const override;
  Value dotBF16(mlir::OpBuilder &b, mlir::Location loc, Value sum, Value first,
                Value second) const override;

  bool convertsF16() const override { return features.f16c; }
  bool roundsToBF16() const override { return features.avx512Bf16; }
  Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc,
                    Value floats) const override;
  Value roundToBF16(mlir::OpBuilder &b, mlir::Location loc, Value first,
                    Value second) const override;

  bool hasScale(mlir::Type type) const override;
  Value scale(mlir::OpBuilder &b, mlir::Location loc, Value a,
              Value n) const override;
  bool hasLookup(mlir::Type type) const override;
  Value lookup(mlir::OpBuilder &b, mlir::Location loc,
               mlir::DenseElementsAttr table, Value index) const override;
  Value lookupIn(mlir::OpBuilder &b, mlir::Location loc, Value table,
                 Value index) const override;

private:
  const X86Features features;
  const AmxTiles amx;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_X86_X86ISA_H
