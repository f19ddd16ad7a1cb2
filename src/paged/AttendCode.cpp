//===- AttendCode.cpp - the width of vectors that this processor has ------===//
// SPDX-License-Identifier: Apache-2.0

#include "paged/AttendCode.h"

#include "machine/processor/CpuFeatures.h"

namespace anabranch::paged {

static const AttendCode &chooseAttendCode() {
  int bytes = machine::vectorBytes();
  if (bytes == 64 && attendCode64())
    return *attendCode64();
  if (bytes >= 32 && attendCode32())
    return *attendCode32();
  return *attendCode16();
}

const AttendCode &attendCode() {
  static const AttendCode &chosen = chooseAttendCode();
  return chosen;
}

} // namespace anabranch::paged
