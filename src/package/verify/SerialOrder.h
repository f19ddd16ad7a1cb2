//===- SerialOrder.h - how one worker runs all streams ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_VERIFY_SERIALORDER_H
#define ANABRANCH_PACKAGE_VERIFY_SERIALORDER_H

#include "anabranch/Status.h"
#include "package/program_generated.h"

#include <memory>
#include <vector>

namespace anabranch::package {

using Streams = std::vector<std::unique_ptr<StreamT>>;

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

#endif // ANABRANCH_PACKAGE_VERIFY_SERIALORDER_H
