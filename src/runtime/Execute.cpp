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

Status executeSerial(Frame &frame, trace::Recorder *recorder) {
  void *scratch = frame.scratch.get();
  for (const Command &c : frame.commands.serial) {
    trace::Scope scope(recorder, frame.plan.labels, c.label, c.stream, 0,
                       c.kind == Command::Kind::Launch ? frame.tiles[c.index]
                                                       : 0);
    if (c.kind == Command::Kind::Launch) {
      int32_t status =
          runTiles(frame, c.index, 0, frame.tiles[c.index], scratch);
      if (status != ANABRANCH_KERNEL_OK)
        return kernelError(status, labelOf(frame, c));
    } else if (c.kind == Command::Kind::Copy) {
      runCopy(frame, c.index);
    } else if (Status s = frame.callHost(c.index); !s.ok()) {
      return withPlace(std::move(s), labelOf(frame, c));
    }
  }
  return {};
}

Status execute(Frame &frame, int threads, trace::Recorder *recorder) {
  if (threads <= 1 || frame.sharedTiles < worthSharing)
    return executeSerial(frame, recorder);
  return executeParallel(frame, threads, recorder);
}

} // namespace anabranch::runtime
