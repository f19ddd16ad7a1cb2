//===- OperationCost.h - what one operation of a body costs -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The one table of costs. A cost counts simple vector instructions for a vector
// of results. Reads and writes of a body are counted elsewhere.
//
//   class     operations  flops  members
//   Free               0      0  constants, linalg.index, terminators
//   Simple             1    0/1  arith; math.absf, absi and fma
//   Gather             1      0  tensor.extract; its load is counted as a read
//   Rounding          20      1  copysign, ceil, floor, trunc, roundeven
//   Root              20      1  sqrt, rsqrt, round and powi
//   Function          20      1  all other math: exp, log, sin, tanh and so on
//
// The flops are those of a roofline: one for each floating-point result, none
// for selects and casts. The limits of fusion and of the kernels' loops are
// tuned to the operations of this table, so another figure changes decisions.

#ifndef ANABRANCH_ANALYSIS_OPERATIONCOST_H
#define ANABRANCH_ANALYSIS_OPERATIONCOST_H

#include "mlir/IR/Operation.h"

namespace anabranch {
namespace analysis {

struct OperationCost {
  enum class Class { Free, Simple, Gather, Rounding, Root, Function };
  Class kind;
  int64_t operations;
  int64_t flops;
};

/// The cost of one operation on scalars.
OperationCost costOf(mlir::Operation *op);

/// The operations and flops of one point of an operator, summed over its
/// regions.
int64_t operationsOf(mlir::Operation *op);
int64_t flopsOf(mlir::Region &body);

/// True if a generic has many operands, one for each point of a window, as a
/// sum over a window does.
bool readsMany(mlir::Operation *op);

/// True if evaluating the operator again for each iteration of one more loop
/// costs real time: it reads much, gathers, or calls a root or a function.
bool isCostlyToRepeat(mlir::Operation *op);

/// True if a second evaluation at the same point costs more than storing the
/// value and loading it again: it reads much or calls a function.
bool isCostlierThanMemory(mlir::Operation *op);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_OPERATIONCOST_H
