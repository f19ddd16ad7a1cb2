//===- Work.h - what a kernel computes and moves ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_COST_WORK_H
#define ANABRANCH_SCHEDULE_COST_WORK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "package/program_generated.h"

#include <memory>

namespace anabranch {
namespace schedule {

/// The work of one launch, as sums of products of the launch's sizes. Null if
/// some size is no such sum.
///
/// - flops: a multiplication, an addition, a comparison or a math function is
///   one;
/// - bytes that the launch must move: each element counts once, however often
///   the kernel reads it.
std::unique_ptr<package::WorkT> workOf(mlir::func::FuncOp kernel);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_COST_WORK_H
