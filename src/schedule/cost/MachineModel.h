//===- MachineModel.h - what a machine can do -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_COST_MACHINEMODEL_H
#define ANABRANCH_SCHEDULE_COST_MACHINEMODEL_H

namespace anabranch {
namespace schedule {

/// What a machine can do, as trace/MachineLimits.h measures it. "All" means all
/// workers together. With one worker, streams never gain. The defaults describe
/// a usual core, for a machine that was not measured.
struct MachineModel {
  int workers = 1;
  double gflops = 50, gflopsAll = 50;
  double gigabytes = 20, gigabytesAll = 20; ///< a second
  double wakeMicroseconds = 10;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_COST_MACHINEMODEL_H
