//===- LaunchOrder.h - an order that a program asks for ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H
#define ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H

#include <vector>

namespace anabranch::runtime {

/// Launches of a super kernel, by their index in it. Each of `before` ends
/// before one of `after` begins, even if they share no bytes. All of `before`
/// come earlier in the super kernel than all of `after`.
struct LaunchOrder {
  std::vector<int> before, after;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H
