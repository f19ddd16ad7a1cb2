//===- HostResults.h - what the operators of the host returned --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H
#define ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H

#include "runtime/device/DeviceBuffer.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

/// The results of the operators that the host runs, by buffer, and memory for
/// the arguments of these calls.
class HostResults {
public:
  HostResults(const Plan &plan, const Commands &commands);
  ~HostResults() { drop(); }
  HostResults(const HostResults &) = delete;
  HostResults &operator=(const HostResults &) = delete;

  /// The tensor that an operator returned, and its bytes in the declared
  /// layout.
  struct Result {
    HostResult host;
    bool handedOver = false; ///< the caller owns the handle
    void *data = nullptr;
    std::unique_ptr<DeviceBuffer> copy;
  };
  Result &operator[](int buffer) { return results[buffer]; }
  const Result &operator[](int buffer) const { return results[buffer]; }

  bool areAny() const { return any; }

  /// Releases all results that the caller did not get.
  void drop();

  std::vector<std::vector<HostArgument>> arguments; ///< by call
  std::vector<HostResult> fresh; ///< while an operator returns

private:
  HostCalls *const host;
  bool any = false; ///< whether the host makes values of the program
  std::vector<Result> results;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_HOSTRESULTS_H
