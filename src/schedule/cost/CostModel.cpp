//===- CostModel.cpp - how long a command takes, roughly ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost/CostModel.h"

#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "schedule/cost/Work.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

// These times are the runtime's and PyTorch's own, beside the work. They are
// short against most commands, so their order of magnitude is enough on any
// machine.

/// Microseconds to begin and end a command.
static constexpr double commandMicroseconds = 0.2;
/// Microseconds for a call of PyTorch: its dispatcher and its operator, whose
/// work is not known.
static constexpr double callMicroseconds = 10;
/// A kernel is cut into tiles of about so many microseconds each.
static constexpr double tileMicroseconds = 5;

static double valueOf(Attribute size) {
  auto number = dyn_cast<IntegerAttr>(size);
  return number ? number.getInt() : ir::typicalSize;
}

static double
evaluate(const std::vector<std::unique_ptr<package::TermT>> &terms,
         ArrayAttr sizes) {
  double sum = 0;
  for (const auto &term : terms) {
    double product = term->factor;
    for (int size : term->sizes)
      product *= valueOf(sizes[size]);
    sum += product;
  }
  return sum;
}

static double bytesOf(Value buffer) {
  return valueOf(buffer.getDefiningOp<ir::BufferOp>().getBytes());
}

Cost costOf(Operation *command, ModuleOp module,
            const machine::MachineRates &machine) {
  if (isa<ir::CallOp>(command))
    return {callMicroseconds, callMicroseconds, callMicroseconds, 0};
  double flops = 0, bytes = 0;
  for (Value buffer : command->getOperands())
    bytes += bytesOf(buffer);
  auto launch = dyn_cast<ir::LaunchOp>(command);
  if (launch) {
    auto kernel = module.lookupSymbol<func::FuncOp>(launch.getKernel());
    if (auto work = kernel ? workOf(kernel) : nullptr) {
      flops = evaluate(work->flops, launch.getSizes());
      bytes = evaluate(work->bytes, launch.getSizes());
    }
  }
  // Work of a thousand FLOP at one GFLOP/s takes a microsecond, and so do a
  // thousand bytes at one GB/s.
  auto time = [&](double gflops, double cacheGBs) {
    return commandMicroseconds +
           std::max(flops / gflops, bytes / cacheGBs) / 1000;
  };
  double workers = machine.workers;
  Cost cost;
  cost.alone = time(machine.gflops, machine.cacheGBs);
  cost.beside =
      time(machine.gflopsAll / workers, machine.cacheGBsAll / workers);
  cost.split = cost.alone;
  cost.ending = commandMicroseconds;
  if (launch && cost.alone >= 2 * tileMicroseconds)
    cost.split =
        std::min(cost.alone, time(machine.gflopsAll, machine.cacheGBsAll) +
                                 machine.wakeMicroseconds / 2);
  if (cost.split < cost.alone)
    cost.ending += tileMicroseconds / 2;
  return cost;
}

} // namespace schedule
} // namespace anabranch
