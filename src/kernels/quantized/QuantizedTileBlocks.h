//===- QuantizedTileBlocks.h - quantised products of tiles ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDTILEBLOCKS_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDTILEBLOCKS_H

#include "kernels/quantized/QuantizedFunction.h"

namespace anabranch {
namespace kernels {

/// Accumulates in tile registers. The left register has the digits of all rows.
/// Four registers of sums have the columns of a panel. Bytes of the weight have
/// the layout of the right register; nibbles are spread in memory first.
class QuantizedTileBlocks final : public QuantizedFunction {
public:
  using QuantizedFunction::QuantizedFunction;

private:
  /// Memory of the function: sums and spread nibbles, one register each.
  mlir::Value sums, spread;

  void fill(LaneBuilder &lanes) override;
  void configure(LaneBuilder &lanes);
  void addSteps(LaneBuilder &lanes, mlir::Value step);
  void spreadNibbles(LaneBuilder &lanes, mlir::Value line, int64_t column);
  void scaleSums(LaneBuilder &lanes, mlir::Value block);
  int64_t stepsAtOnce() const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDTILEBLOCKS_H
