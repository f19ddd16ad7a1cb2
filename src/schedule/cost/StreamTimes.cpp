//===- StreamTimes.cpp - when streams come to their commands --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost/StreamTimes.h"

#include "schedule/cost/CostModel.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

namespace {

struct Cursor {
  Block::iterator at, end;
  double time = 0;
};

} // namespace

StreamTimes::StreamTimes(ir::ProgramOp program,
                         const machine::MachineRates &machine) {
  auto module = program->getParentOfType<ModuleOp>();
  SmallVector<Cursor> cursors;
  for (auto stream : program.getBody().getOps<ir::StreamOp>())
    if (!stream.getInitialize()) {
      Block &list = stream.getBody().front();
      cursors.push_back({list.begin(), list.end()});
    }
  // Each round advances every stream to its next wait, until no stream
  // advances.
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (Cursor &cursor : cursors)
      for (; cursor.at != cursor.end; ++cursor.at, goesOn = true) {
        Operation *op = &*cursor.at;
        begins[op] = cursor.time;
        if (auto wait = dyn_cast<ir::WaitOp>(op)) {
          auto event = events.find(wait.getEvent());
          if (event == events.end())
            break;
          cursor.time = std::max(cursor.time, event->second);
        } else if (auto record = dyn_cast<ir::RecordOp>(op)) {
          events[record.getEvent()] = cursor.time;
        } else {
          cursor.time += costOf(op, module, machine).beside;
        }
      }
  }
}

} // namespace schedule
} // namespace anabranch
