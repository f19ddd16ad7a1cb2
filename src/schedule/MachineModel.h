//===- MachineModel.h - what a machine can do -------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_MACHINEMODEL_H
#define ANABRANCH_SCHEDULE_MACHINEMODEL_H

namespace anabranch {
namespace schedule {

/// What a machine can do; trace/MachineLimits.h measures it. "All": all workers
/// together. With one worker nothing is ever worth a stream.
struct MachineModel {
  int workers = 1;
  double gflops = 1, gflopsAll = 1;
  double gigabytes = 1, gigabytesAll = 1; ///< a second
  double wakeMicroseconds = 1;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_MACHINEMODEL_H
