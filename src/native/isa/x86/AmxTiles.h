//===- AmxTiles.h - the tile registers of AMX -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_X86_AMXTILES_H
#define ANABRANCH_NATIVE_ISA_X86_AMXTILES_H

#include "native/isa/Tiles.h"

namespace anabranch {
namespace native {

class AmxTiles final : public Tiles {
public:
  int64_t registers() const override { return 8; }
  int64_t rows() const override { return 16; }
  int64_t rowBytes() const override { return 64; }

  void configure(mlir::OpBuilder &b, mlir::Location loc,
                 llvm::ArrayRef<Size> sizes) const override;
  void release(mlir::OpBuilder &b, mlir::Location loc) const override;
  void zero(mlir::OpBuilder &b, mlir::Location loc,
            int64_t tile) const override;
  void load(mlir::OpBuilder &b, mlir::Location loc, int64_t tile, Value pointer,
            Value stride, Reuse reuse) const override;
  void store(mlir::OpBuilder &b, mlir::Location loc, int64_t tile,
             Value pointer, Value stride) const override;
  void dot(mlir::OpBuilder &b, mlir::Location loc, Product product, int64_t sum,
           int64_t left, int64_t right) const override;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_X86_AMXTILES_H
