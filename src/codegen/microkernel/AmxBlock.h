//===- AmxBlock.h - a block of a product in AMX registers -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// An AMX register has up to 16 rows of 64 bytes. Four hold 32 rows of sums, in
// one or two vectors of columns; two hold words of the left operand, two words
// of the right one, whose panels have just the layout that tdpbssd wants: a row
// for each word of the depth.
//
//   NAME_tiles(rows, words)    sets the sizes of the registers
//   NAME(left, left stride, right, sums, words, rows, continues)
//
// The caller sets whole sizes, 32 rows and 16 words, and releases the registers
// at the end; NAME changes the sizes for what is left over, and back.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MICROKERNEL_AMXBLOCK_H
#define ANABRANCH_CODEGEN_MICROKERNEL_AMXBLOCK_H

#include "codegen/emit/Lanes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace codegen {

struct AmxBlock {
  static constexpr int64_t rows = 32;  ///< of a block
  static constexpr int64_t words = 16; ///< along the depth, at once

  int64_t vectors;   ///< of a block: 1 or 2
  int64_t sumStride; ///< words from one row of the sums to the next
  int64_t rightStep; ///< words from one depth of the right operand to the next

  struct Functions {
    mlir::func::FuncOp configure, block;
  };
  /// Writes both functions before `where`.
  Functions create(mlir::OpBuilder &builder, mlir::Operation *where,
                   llvm::StringRef name) const;

  struct Arguments {
    mlir::Value left, leftStride, right, sums;
    mlir::Value words, rows; ///< index
    mlir::Value continues;   ///< i1
  };
  static void call(LaneBuilder &lanes, const Functions &functions,
                   const Arguments &arguments);
  /// Sets whole sizes before the first block.
  static void begin(LaneBuilder &lanes, const Functions &functions);
  /// Releases the registers after the last block.
  static void end(LaneBuilder &lanes);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MICROKERNEL_AMXBLOCK_H
