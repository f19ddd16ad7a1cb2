//===- Attend32.cpp - attention in vectors of 32 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifdef __AVX2__
#define ANABRANCH_PAGED_VECTOR_BYTES 32
#include "paged/AttendTask.h"
#else
#include "paged/AttendCode.h"
#endif

namespace anabranch::paged {

const AttendCode *attendCode32() {
#ifdef __AVX2__
  return &code;
#else
  return nullptr;
#endif
}

} // namespace anabranch::paged
