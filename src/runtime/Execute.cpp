//===- Execute.cpp - run the commands of a frame, alone -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/Execute.h"

#include "runtime/Describe.h"

namespace anabranch::runtime {

namespace {

/// With less to share than this, other workers would come too late: waking one
/// takes as long as some tiles.
constexpr int64_t worthSharing = 4;

} // namespace

Status withPlace(Status status, const trace::Label &label) {
  if (status.ok() || label.file.empty())
    return status;
  return Status(status.code(), status.message() + " (" + describe(label) + ")");
}

Status runStep(Frame &frame, const Command &step) {
  if (step.kind == Command::Kind::Copy) {
    const CopyPlan &c = frame.commands.copies[step.index];
    frame.plan.device->copy(frame.viewOf(c.source),
                            frame.viewOf(c.destination));
    return {};
  }
  return frame.callHost(step.index);
}

Status executeSerial(Frame &frame, const trace::Call *call) {
  void *scratch = frame.scratch.get();
  for (const Command &c : frame.commands.serial) {
    trace::Scope scope(call, c.label,
                       c.kind == Command::Kind::Launch ? frame.tiles[c.index]
                                                       : 0);
    if (c.kind == Command::Kind::Launch) {
      int32_t status =
          runTiles(frame, c.index, 0, frame.tiles[c.index], scratch);
      if (status != ANABRANCH_KERNEL_OK)
        return kernelError(status, labelOf(frame, c));
    } else if (Status s = runStep(frame, c); !s.ok()) {
      return withPlace(std::move(s), labelOf(frame, c));
    }
  }
  return {};
}

Status execute(Frame &frame, int threads, const trace::Call *call) {
  bool isOneList = frame.commands.streams.size() < 2;
  if (threads <= 1 || (isOneList && frame.sharedTiles < worthSharing))
    return executeSerial(frame, call);
  return executeParallel(frame, threads, call);
}

} // namespace anabranch::runtime
