//===- Tiles.h - registers that hold matrices -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A tile register has rows of 32-bit words. A product adds to a tile of sums
// the products of a left tile, whose rows run along the depth, and of a right
// one, which has a row for each word of the depth. A word is two bf16 or four
// bytes.

#ifndef ANABRANCH_NATIVE_ISA_TILES_H
#define ANABRANCH_NATIVE_ISA_TILES_H

#include "mlir/IR/Builders.h"

namespace anabranch {
namespace native {

class Tiles {
public:
  using Value = mlir::Value;

  /// Of pairs of bf16, or of bytes: both signed, or one operand's unsigned.
  enum class Product { BF16, Int8, LeftUnsigned, RightUnsigned };

  /// Whether a later load finds the same lines in a cache.
  enum class Reuse {
    Cached,  ///< they are read again soon
    Streamed ///< they are not
  };

  /// The size of a register in use. Its rows are a constant, or a value of type
  /// index.
  struct Size {
    int64_t tile;
    mlir::OpFoldResult rows;
    int64_t rowBytes;
  };

  virtual ~Tiles() = default;

  /// How many registers there are, and what one holds at most.
  virtual int64_t registers() const = 0;
  virtual int64_t rows() const = 0;
  virtual int64_t rowBytes() const = 0;

  /// Sets the sizes of the registers. `release` must follow the last use.
  virtual void configure(mlir::OpBuilder &b, mlir::Location loc,
                         llvm::ArrayRef<Size> sizes) const = 0;
  virtual void release(mlir::OpBuilder &b, mlir::Location loc) const = 0;

  virtual void zero(mlir::OpBuilder &b, mlir::Location loc,
                    int64_t tile) const = 0;
  /// Rows are `stride` bytes apart, an i64.
  virtual void load(mlir::OpBuilder &b, mlir::Location loc, int64_t tile,
                    Value pointer, Value stride, Reuse reuse) const = 0;
  virtual void store(mlir::OpBuilder &b, mlir::Location loc, int64_t tile,
                     Value pointer, Value stride) const = 0;
  virtual void dot(mlir::OpBuilder &b, mlir::Location loc, Product product,
                   int64_t sum, int64_t left, int64_t right) const = 0;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_TILES_H
