//===- OnlineSoftmax.h - from scores to weights -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The keys come block by block, so a row's maximum is known only at the end.
// The weights of each block are relative to the maximum so far. When the
// maximum rises, the sum and the output of the earlier blocks are rescaled.
//
// Weights are powers of two. The factor that makes an exponent of a score is
// part of the power, so scores are not multiplied before.

#ifndef ANABRANCH_KERNELS_ATTENTION_ONLINESOFTMAX_H
#define ANABRANCH_KERNELS_ATTENTION_ONLINESOFTMAX_H

#include "kernels/attention/VisibleKeys.h"
#include "native/math/NormalPower.h"

namespace anabranch {
namespace kernels {

class OnlineSoftmax {
public:
  explicit OnlineSoftmax(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes), memory(attention.memory) {
  }

  /// Clears maximum, sum and output of each row. Call it before the first
  /// block.
  void begin();
  /// Turns the rows' scores of a block into weights.
  void update(const AttentionContext::RowBlock &rows,
              const AttentionContext::KeyBlock &keys);
  /// The divisor of a row's output after the last block. `local` counts rows
  /// from the tile's first.
  mlir::Value divisor(mlir::Value local);

private:
  AttentionContext &attention;
  LaneBuilder &lanes;
  const TypedMemory &memory;

  using Hidden = VisibleKeys::Hidden;
  mlir::Value maskScores(mlir::Value scores, mlir::Value row, mlir::Value key,
                         Hidden hidden);
  mlir::Value addMask(mlir::Value scores, mlir::Value row, mlir::Value key);
  mlir::Value maximumOf(mlir::Value row, mlir::Value start,
                        const AttentionContext::KeyBlock &keys, Hidden hidden);
  bool scalesScores() const;
  double exponentOfScore() const;
  mlir::Value baseOf(mlir::Value highest, mlir::Value zero, mlir::Value none);
  void raiseMaximum(mlir::Value row, mlir::Value start,
                    const AttentionContext::KeyBlock &keys, Hidden hidden);
  void makeFactors(const AttentionContext::RowBlock &rows);
  mlir::Value powerOf(mlir::Value difference, native::PowerDigits digits);
  void addToSum(mlir::Value local, mlir::Value factor, mlir::Value weights);
  void makeWeights(mlir::Value row, mlir::Value start,
                   const AttentionContext::KeyBlock &keys);
  void storeWeight(mlir::Value weight, mlir::Value place);
  /// The weight of the vector of keys before this one, if two are stored
  /// together.
  mlir::Value weightBefore;
  mlir::Value larger(mlir::Value a, mlir::Value b);
  mlir::Value largestLane(mlir::Value vector);
  void rescale(mlir::Value local, mlir::Value factor);
  mlir::Value forEachVector(
      mlir::Value count, mlir::Value initial,
      llvm::function_ref<mlir::Value(mlir::Value at, mlir::Value carried)>
          body);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ONLINESOFTMAX_H
