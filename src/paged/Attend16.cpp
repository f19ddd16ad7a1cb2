//===- Attend16.cpp - attention in vectors of 16 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#define ANABRANCH_PAGED_VECTOR_BYTES 16
#include "paged/AttendTask.h"

namespace anabranch::paged {

const AttendCode *attendCode16() { return &code; }

} // namespace anabranch::paged
