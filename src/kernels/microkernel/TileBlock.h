//===- TileBlock.h - a block of a product in tile registers -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A tile register has up to 16 rows of 64 bytes. Up to four registers hold the
// sums of up to 32 rows, in one or two vectors of columns. Two hold words of
// the left operand. Two hold words of the right one, whose panels have the
// layout that the instructions need: a row for each word of the depth. int8 and
// bf16 differ only in the instruction: a row of the left operand is 64 bytes of
// the depth.
//
// Floats of more digits than bf16 are sums of parts (FloatParts.h). A block
// adds the products of their parts.
//
// The registers are configured once for blocks of equally many rows. If the
// depth ends within a register, the caller pads it with zeros.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_TILEBLOCK_H
#define ANABRANCH_KERNELS_MICROKERNEL_TILEBLOCK_H

#include "kernels/emit/Lanes.h"

namespace anabranch {
namespace kernels {

/// The properties that all blocks of a product share.
struct TileBlockShape {
  using Product = native::Tiles::Product;

  Product product;
  int64_t vectors;   ///< of a block: 1 or 2
  bool isTall;       ///< blocks may have more rows than one register
  bool reusesRight;  ///< the next block reads the same words of it
  int64_t sumStride; ///< words from one row of the sums to the next
  int64_t rightStep; ///< words from one depth of the right operand to the next
  /// Whether later steps of the block read the same lines of the left operand.
  bool reusesLeft = false;
  /// Words of the depth at once: as many as a register holds, or fewer.
  int64_t stepWords = 16;
};

/// Emits blocks of one shape into a function.
class TileBlock {
public:
  static constexpr int64_t rows = 32;  ///< of a block, at most
  static constexpr int64_t words = 16; ///< along the depth at once, at most
  static constexpr int64_t stepBytes = 64;

  /// Configures the registers for blocks of `rows` rows.
  TileBlock(LaneBuilder &lanes, const TileBlockShape &shape, mlir::Value rows);
  /// A block in the same registers, whose rows of sums are `stride` words
  /// apart.
  TileBlock withSums(int64_t stride) const;

  /// Loads the sums of a block, or clears them if `continues` is false.
  void start(mlir::Value sums, mlir::Value continues);
  void clear();
  /// Adds the products of a step's words of the depth. `leftStride` is the
  /// distance of two rows in bytes, as i64.
  void addWords(mlir::Value left, mlir::Value leftStride, mlir::Value right);
  /// The same for operands in parts, which are so many bytes apart. The right
  /// operand has as many parts as the left one, or a single one.
  struct Parts {
    int64_t left, leftBytes, right, rightBytes;
  };
  void addParts(mlir::Value left, mlir::Value leftStride, mlir::Value right,
                const Parts &parts);
  void store(mlir::Value sums);
  /// Releases the registers after the last block.
  void release();

private:
  LaneBuilder &lanes;
  const native::Tiles *tiles;
  TileBlockShape shape;
  /// Rows of the upper and of the lower registers, and the first of the latter.
  mlir::Value upper, lower, lowerFirst;
  mlir::Value sumStride, rightStride;

  void configure();
  void forSums(mlir::Value sums,
               llvm::function_ref<void(int64_t reg, mlir::Value at)> action);
  mlir::Value move(mlir::Value pointer, mlir::Value bytes);
  mlir::Value move(mlir::Value pointer, int64_t bytes);
  void multiply(int64_t left, int64_t right);
  void load(int64_t reg, mlir::Value pointer, mlir::Value stride,
            bool isReused);
  void loadLeft(mlir::Value left, mlir::Value stride);
  void loadRight(mlir::Value right);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_TILEBLOCK_H
