//===- UsualFeature.h - a feature of every machine of a kind ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_MACHINE_USUALFEATURE_H
#define ANABRANCH_SUPPORT_MACHINE_USUALFEATURE_H

#include "machine/processor/CpuFeatures.h"

namespace anabranch::machine {

/// A feature that every machine of this architecture has, for packages of
/// tests.
inline const char *usualFeature() {
  return hostCpu() == std::string_view("aarch64") ? "neon" : "sse2";
}

} // namespace anabranch::machine

#endif // ANABRANCH_SUPPORT_MACHINE_USUALFEATURE_H
