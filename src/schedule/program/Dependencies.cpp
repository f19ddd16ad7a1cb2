//===- Dependencies.cpp - which commands must come before others ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/Dependencies.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

int64_t memoryOf(Value buffer) {
  return buffer.getDefiningOp<ir::BufferOp>().getMemory();
}

void Dependencies::read(Value buffer, Earlier &earlier) {
  Uses &bytes = uses[memoryOf(buffer)];
  if (bytes.writer >= 0)
    earlier.needed.insert(bytes.writer);
  bytes.readers.push_back(number);
}

void Dependencies::write(Value buffer, Earlier &earlier) {
  Uses &bytes = uses[memoryOf(buffer)];
  bool isInput = buffer.getDefiningOp<ir::BufferOp>().getKind() == "input";
  if (bytes.writer >= 0)
    earlier.needed.insert(bytes.writer);
  for (int reader : bytes.readers)
    if (reader != number)
      (isInput ? earlier.overwritten : earlier.needed).insert(reader);
  bytes = {number, {}};
}

Dependencies::Earlier Dependencies::add(Operation *command) {
  ++number;
  Earlier earlier;
  auto readAll = [&](ValueRange buffers) {
    for (Value buffer : buffers)
      read(buffer, earlier);
  };
  auto writeAll = [&](ValueRange buffers) {
    for (Value buffer : buffers)
      write(buffer, earlier);
  };
  if (auto launch = dyn_cast<ir::LaunchOp>(command)) {
    readAll(launch.getReads());
    writeAll(launch.getWrites());
  } else if (auto call = dyn_cast<ir::CallOp>(command)) {
    readAll(call.getReads());
    writeAll(call.getWrites());
    if (call.getOrdered()) {
      if (lastOrdered >= 0)
        earlier.needed.insert(lastOrdered);
      lastOrdered = number;
    }
  } else if (auto copy = dyn_cast<ir::CopyOp>(command)) {
    readAll(copy.getSource());
    writeAll(copy.getDestination());
  }
  return earlier;
}

} // namespace schedule
} // namespace anabranch
