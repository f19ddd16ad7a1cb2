//===- LaunchOrder.h - an order that a program asks for ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H
#define ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H

#include <vector>

namespace anabranch::runtime {

/// Launches of a super kernel, by their place in it: those of `before` end
/// before one of `after` begins, even where they share no bytes. Every one of
/// `before` comes earlier in the super kernel than all of `after`.
struct LaunchOrder {
  std::vector<int> before, after;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_LAUNCHORDER_H
