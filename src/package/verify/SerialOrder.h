//===- SerialOrder.h - how one worker runs all streams ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

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

/// The order in which a single worker runs all commands. It keeps streams and
/// events, and prefers streams of higher priority. An error if a stream would
/// wait forever.
Expected<std::vector<CommandRef>> serialOrder(const Streams &streams,
                                              int events);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_SERIALORDER_H
