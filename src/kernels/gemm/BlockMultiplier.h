//===- BlockMultiplier.h - calls of a product's micro-kernel ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Multiplies a block of rows by a panel of columns, in vector registers
// (MicroKernel.h). If only a call knows how many rows there are, the last ones
// of a tile are a block of fewer rows.

#ifndef ANABRANCH_KERNELS_GEMM_BLOCKMULTIPLIER_H
#define ANABRANCH_KERNELS_GEMM_BLOCKMULTIPLIER_H

#include "kernels/gemm/Compensation.h"
#include "kernels/microkernel/MicroKernel.h"

#include <map>
#include <tuple>

namespace anabranch {
namespace kernels {

/// A long sum of floats has a larger error than a sum of parts. PyTorch adds up
/// products in parts too, those of convolutions in shorter ones. A batch of f32
/// may be the terms of one sum, as Winograd's are. Zero: the whole depth is
/// short enough for one part, or a block of the depth is.
int64_t wordsOfPartialSum(const GemmContext &gemm);

class BlockMultiplier {
public:
  /// A right operand in panels is fetched so many bytes ahead.
  BlockMultiplier(GemmContext &gemm, LeftOperand &left,
                  Compensation &compensation, int64_t bytesAhead)
      : gemm(gemm), lanes(gemm.lanes), left(left), compensation(compensation),
        bytesAhead(bytesAhead) {}

  /// The rows from `row` on, for `count` depths from `first` on.
  struct Block {
    mlir::Value row;
    mlir::Value sums;
    OperandReader::Address right; ///< a panel of the right operand
    mlir::Value first, count;
  };
  /// Adds the products to the sums. If `first` is zero, the sums start at zero.
  void multiply(const Block &block);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  Compensation &compensation;
  int64_t bytesAhead;
  /// The micro-kernels' functions by rows, vectors and whether they read codes,
  /// made at their first call.
  std::map<std::tuple<int64_t, int64_t, bool>, mlir::func::FuncOp> functions;

  void call(int64_t rows, int64_t vectors,
            const MicroKernel::Arguments &arguments);
  void call(int64_t rows, int64_t vectors, bool readsCodes,
            const MicroKernel::Arguments &arguments);
  MicroKernel microKernel(int64_t rows, int64_t vectors, bool readsCodes) const;
  int64_t lastVectors() const;
  bool rowsAreWhole() const;
  llvm::SmallVector<int64_t> heights() const;
  mlir::Value continues(const Block &block);
  MicroKernel::Arguments argumentsOf(const Block &block);
  void multiplyRows(int64_t rows, MicroKernel::Arguments arguments);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_BLOCKMULTIPLIER_H
