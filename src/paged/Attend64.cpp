//===- Attend64.cpp - attention in vectors of 64 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifdef __AVX512F__
#define ANABRANCH_PAGED_VECTOR_BYTES 64
#include "paged/AttendTask.h"
#else
#include "paged/AttendCode.h"
#endif

namespace anabranch::paged {

const AttendCode *attendCode64() {
#ifdef __AVX512F__
  return &code;
#else
  return nullptr;
#endif
}

} // namespace anabranch::paged
