//===- Refusals.cpp - why a program is refused ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/Refusals.h"

namespace anabranch::package {

void Refusals::checkSize(const Size &size, const std::string &where) {
  require(size.slot() < program.slots, where,
          "names a size slot that is not there");
}

void Refusals::checkSizes(const std::vector<Size> &sizes,
                          const std::string &where) {
  for (const Size &size : sizes)
    checkSize(size, where);
}

} // namespace anabranch::package
