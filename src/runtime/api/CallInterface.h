//===- CallInterface.h - inputs and outputs in public -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_API_CALLINTERFACE_H
#define ANABRANCH_RUNTIME_API_CALLINTERFACE_H

#include "anabranch/Executable.h"
#include "package/folder/Reader.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The description of an executable's inputs and outputs. A number in which its
/// programs differ is not known before a call.
class CallInterface {
public:
  /// Adds one more program of the package. With `copiesFound` the caller gives
  /// memory for results whose size the run finds, too.
  void add(const package::Package &package, const Plan &plan, bool copiesFound);

  std::vector<InputInfo> inputs;
  std::vector<OutputInfo> outputs;

private:
  bool isFirst = true;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_API_CALLINTERFACE_H
