//===- HostResults.h - what the operators of the host returned --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H
#define ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H

#include "runtime/device/DeviceBuffer.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

/// The results of a call's operators that the host runs, by buffer, and the
/// arguments that the next one gets.
class HostResults {
public:
  HostResults(const Plan &plan, const Commands &commands);
  ~HostResults() { drop(); }
  HostResults(const HostResults &) = delete;
  HostResults &operator=(const HostResults &) = delete;

  /// What a call returned, and its bytes in the declared layout.
  struct Result {
    HostResult host;
    bool handedOver = false; ///< the caller owns the handle
    void *data = nullptr;
    std::unique_ptr<DeviceBuffer> copy;
  };
  Result &operator[](int buffer) { return results[buffer]; }
  const Result &operator[](int buffer) const { return results[buffer]; }

  /// Gives all results back that were not handed to the caller.
  void drop();

  std::vector<std::vector<HostArgument>> arguments; ///< per call
  std::vector<HostResult> fresh;                    ///< while a call returns

private:
  HostCalls *const host;
  const bool any; ///< the program calls the host at all
  std::vector<Result> results;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H
