//===- VerifyProgram.h - is this program sound? -----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_VERIFY_VERIFYPROGRAM_H
#define ANABRANCH_PACKAGE_VERIFY_VERIFYPROGRAM_H

#include "anabranch/Status.h"
#include "package/program_generated.h"

#include <memory>
#include <vector>

namespace anabranch::package {

/// Of one program: the executor keeps sets of them in a word.
constexpr size_t streamLimit = 62;

/// Launches of one super kernel.
constexpr size_t superLimit = 4096;

using Streams = std::vector<std::unique_ptr<StreamT>>;

/// Everything that the runtime relies on without looking again: indices are in
/// range, kinds agree, static ranges lie inside their memory, nothing writes
/// what is read-only, every event is recorded once and no stream waits forever,
/// accesses are free of races. An error says which entry is wrong.
Status verifyProgram(const ProgramT &program);

/// Command number `command` of stream number `stream`.
struct CommandRef {
  int stream;
  int command;
};

/// One order of all commands that keeps streams and events, the streams of
/// higher priority first: what a single worker runs. An error when a stream
/// would wait forever.
Expected<std::vector<CommandRef>> serialOrder(const Streams &streams,
                                              int events);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_VERIFYPROGRAM_H
