//===- Patience.h - how long to refrain after a disturbance -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_PATIENCE_H
#define ANABRANCH_MACHINE_HOST_PATIENCE_H

namespace anabranch::machine {

/// Decides for how many looks at the machine something stays off that
/// throttling followed. The number doubles each time that throttling follows
/// again, and starts anew after a long calm.
class Patience {
public:
  /// Call it once for each look. True if the thing must stay off.
  bool mustWait(bool throttled);

private:
  static constexpr int least = 2, most = 64;

  int patience = least;
  int waiting = 0; ///< looks left
  int calm = 0;    ///< looks since the last throttling
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_PATIENCE_H
