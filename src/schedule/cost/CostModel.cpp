//===- CostModel.cpp - how long a command takes, roughly ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "schedule/cost/CostModel.h"

#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "schedule/cost/Work.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

/// Beginning and ending a command, in microseconds.
static constexpr double kCommand = 0.2;
/// A call of PyTorch: its dispatcher and its operator, of which nothing is
/// known.
static constexpr double kCall = 10;
/// A kernel is cut into tiles of about so many microseconds.
static constexpr double kTile = 5;

static double valueOf(Attribute size) {
  auto number = dyn_cast<IntegerAttr>(size);
  return number ? number.getInt() : ir::kTypicalSize;
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

Cost costOf(Operation *command, ModuleOp module, const MachineModel &machine) {
  if (isa<ir::CallOp>(command))
    return {kCall, kCall, kCall, 0};
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
  // A thousand FLOP at one GFLOP/s take a microsecond, as bytes do.
  auto time = [&](double gflops, double gigabytes) {
    return kCommand + std::max(flops / gflops, bytes / gigabytes) / 1000;
  };
  double workers = machine.workers;
  Cost cost;
  cost.alone = time(machine.gflops, machine.gigabytes);
  cost.beside =
      time(machine.gflopsAll / workers, machine.gigabytesAll / workers);
  cost.split = cost.alone;
  cost.ending = kCommand;
  if (launch && cost.alone >= 2 * kTile)
    cost.split =
        std::min(cost.alone, time(machine.gflopsAll, machine.gigabytesAll) +
                                 machine.wakeMicroseconds / 2);
  if (cost.split < cost.alone)
    cost.ending += kTile / 2;
  return cost;
}

} // namespace schedule
} // namespace anabranch
