//===- MicroKernel.h - a block of a matrix product in registers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel is a function of its own, since its accumulators need every
// vector register:
//
//   NAME(left pointer of each row, left step, right pointer, right step, sums,
//        words, continues, compensation)
//
// It adds, for each row and column, left[row][k] * right[k][column] over the
// words of the depth (WordProduct.h) to the sums. An interleaved left operand,
// whose rows are neighbours at each depth, has one pointer, and its words are
// already split. One whose rows are at equal distances has one pointer too. If
// `continues` is not set, the sums of a row start at compensation[row], or at
// zero if products need none. Steps are bytes from one word to the next. If
// rows are runs of words, the left step is the bytes from one run to the next;
// of rows with one pointer, whose runs may be anywhere, it is the number of the
// first run. A right operand with one element in a word may be narrower than
// the sums, and is widened. One of floats of eight bits has two words of pairs
// in four bytes (CodePairs.h).

#ifndef ANABRANCH_KERNELS_MICROKERNEL_MICROKERNEL_H
#define ANABRANCH_KERNELS_MICROKERNEL_MICROKERNEL_H

#include "kernels/microkernel/MatrixBlock.h"
#include "kernels/microkernel/WordProduct.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <optional>

namespace anabranch {
namespace kernels {

struct MicroKernel {
  mlir::Type element; ///< f32, f64, i32 or i64
  int64_t lanes;      ///< of a vector
  int64_t rows;
  int64_t vectors;   ///< side by side in a row
  int64_t sumStride; ///< elements from one row of the sums to the next
  /// The steps in elements, if they are the same in every call.
  std::optional<int64_t> leftStep, rightStep;
  mlir::Type right = {}; ///< bf16 or f16; null: as `element`
  WordProduct product = {};
  /// The right operand's floats of eight bits, of which pairs of bf16 are made;
  /// else null. The number of words is then even.
  mlir::FloatType codes = {};
  /// How many bytes ahead of its use the right operand is prefetched; 0: never.
  int64_t bytesAhead = 0;
  /// If the left elements of a depth are neighbours, [depth][row]: how many
  /// rows there are, of which the block has the first ones. Else zero.
  int64_t interleavedRows = 0;
  /// How many elements a row is after the one before, if that is the same for
  /// all rows. Else zero.
  int64_t rowElements = 0;
  /// A left operand in runs of words: how long they are, and, of rows at equal
  /// distances, how many elements a run is after the first of its row.
  struct Runs {
    int64_t words;
    std::function<mlir::Value(LaneBuilder &, mlir::Value run)> offsetOf = {};
  };
  std::optional<Runs> runs = {};
  /// So many words of floats are summed from zero, and then added to the sums
  /// of the words before, since rounding errors grow with the length of a sum.
  /// 0: all words of a call.
  int64_t wordsOfPartialSum = 0;

  int64_t columns() const { return lanes * vectors; }

  /// Writes the function before `where`.
  mlir::func::FuncOp create(LaneBuilder &lanes, mlir::Operation *where,
                            llvm::StringRef name) const;

  struct Arguments {
    llvm::SmallVector<mlir::Value> left; ///< of each row, or of all
    mlir::Value leftStep;                ///< i64; may be null if fixed
    mlir::Value right;
    mlir::Value rightStep; ///< i64; may be null if fixed
    mlir::Value sums;
    mlir::Value words;        ///< index
    mlir::Value continues;    ///< i1
    mlir::Value compensation; ///< may be null if products need none
  };
  void call(LaneBuilder &lanes, mlir::func::FuncOp function,
            const Arguments &arguments) const;

private:
  bool needsCompensation() const {
    return product.int8 && product.int8->needsCompensation();
  }
  static constexpr int64_t wordsOfCodes = 2;
  /// Bytes of a column's word in the right operand.
  int64_t rightBytes() const;
  /// Words of the depth that the loop adds at once.
  int64_t wordsAtOnce() const {
    return product.isMatrix ? MatrixBlock::words : codes ? wordsOfCodes : 1;
  }
  MatrixBlock matrixBlock(LaneBuilder &inner) const;
  int64_t leftPointers() const {
    return interleavedRows || rowElements ? 1 : rows;
  }
  void fill(LaneBuilder &lanes, mlir::func::FuncOp function) const;
  /// The start values of the accumulators, one vector each.
  llvm::SmallVector<mlir::Value> startSums(LaneBuilder &inner,
                                           mlir::func::FuncOp function) const;
  /// The accumulators after the next words of the depth. Their left elements
  /// are `leftOffset` bytes after the first, their right ones at `right`.
  llvm::SmallVector<mlir::Value> addWord(LaneBuilder &inner,
                                         mlir::func::FuncOp function,
                                         mlir::Value leftOffset,
                                         mlir::Value right,
                                         mlir::ValueRange sums) const;
  /// The columns' factors of each of the words that are added at once.
  llvm::SmallVector<llvm::SmallVector<WordProduct::Factor>>
  columnsOf(LaneBuilder &inner, mlir::Value right) const;
  /// The accumulators after the words from `first` to before `end`.
  llvm::SmallVector<mlir::Value> addWords(LaneBuilder &inner,
                                          mlir::func::FuncOp function,
                                          mlir::Value first, mlir::Value end,
                                          mlir::ValueRange sums) const;
  llvm::SmallVector<mlir::Value> addRuns(LaneBuilder &inner,
                                         mlir::func::FuncOp function,
                                         mlir::Value first, mlir::Value end,
                                         mlir::ValueRange sums) const;
  void prefetch(LaneBuilder &inner, mlir::Value right) const;
  mlir::Value leftBytes(LaneBuilder &inner, mlir::func::FuncOp function) const;
  mlir::Value runOffset(LaneBuilder &inner, mlir::func::FuncOp function,
                        mlir::Value run) const;
  mlir::Value panelRow(LaneBuilder &inner, mlir::func::FuncOp function,
                       mlir::Value word) const;
  void addPart(LaneBuilder &inner, mlir::func::FuncOp function,
               mlir::Value first, mlir::Value end) const;
  void storeSums(LaneBuilder &inner, mlir::func::FuncOp function,
                 mlir::ValueRange sums) const;
  mlir::Value sumPointer(LaneBuilder &inner, mlir::func::FuncOp function,
                         int64_t number) const;
  WordProduct::Factor loadRight(LaneBuilder &inner, mlir::Value pointer) const;
  WordProduct::Factor loadLeft(LaneBuilder &inner, mlir::func::FuncOp function,
                               int64_t row, mlir::Value offset) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_MICROKERNEL_H
