//===- Patience.cpp - how long to refrain after a disturbance -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/Patience.h"

#include <algorithm>

namespace anabranch::machine {

bool Patience::mustWait(bool throttled) {
  if (throttled) {
    patience = calm > most ? least : std::min(2 * patience, most);
    waiting = patience;
    calm = 0;
  } else {
    waiting = std::max(waiting - 1, 0);
    calm = std::min(calm, most) + 1;
  }
  return waiting > 0;
}

} // namespace anabranch::machine
