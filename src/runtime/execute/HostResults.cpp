//===- HostResults.cpp - what the operators of the host returned ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/HostResults.h"

#include <algorithm>

namespace anabranch::runtime {

HostResults::HostResults(const Plan &plan, const Commands &commands)
    : host(plan.host), results(plan.buffers.size()) {
  for (const BufferPlan &buffer : plan.buffers)
    any |= buffer.kind == package::BufferKind::External;
  for (const CallPlan &call : commands.calls) {
    // Lists point into this array, so it must not be reallocated.
    arguments.push_back(call.arguments);
    std::vector<HostArgument> &list = arguments.back();
    for (size_t i = 0; i < list.size(); ++i)
      if (call.firstItem[i] >= 0)
        list[i].items = list.data() + call.firstItem[i];
    fresh.resize(std::max(fresh.size(), call.results.size()));
  }
}

void HostResults::drop() {
  if (!any)
    return;
  for (Result &result : results) {
    if (result.host.handle && !result.handedOver)
      host->release(result.host.handle);
    result = Result();
  }
}

} // namespace anabranch::runtime
