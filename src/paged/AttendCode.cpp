//===- AttendCode.cpp - the width of vectors that this processor has ------===//
// SPDX-License-Identifier: Apache-2.0

#include "paged/AttendCode.h"

#include "machine/processor/CpuFeatures.h"

namespace anabranch::paged {

static const AttendCode &chooseAttendCode() {
  if (attendCode64() && machine::cpuHas("avx512f"))
    return *attendCode64();
  if (attendCode32() && machine::cpuHas("avx2") && machine::cpuHas("fma"))
    return *attendCode32();
  return *attendCode16();
}

const AttendCode &attendCode() {
  static const AttendCode &chosen = chooseAttendCode();
  return chosen;
}

} // namespace anabranch::paged
