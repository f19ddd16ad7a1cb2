//===- ArmFeatures.h - features of 64-bit Arm, and the host's ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H
#define ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H

#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch::machine {

/// The two words in which Linux lists features of 64-bit Arm (AT_HWCAP,
/// AT_HWCAP2).
struct ArmCapabilities {
  uint64_t first = 0, second = 0;

  /// The capabilities of this machine; none on another architecture.
  static ArmCapabilities host();

  /// Whether they have a feature, by LLVM's name ("dotprod", "bf16"). False
  /// for a name that is not known.
  bool has(std::string_view feature) const;
};

/// Whether `has` knows a feature of this name.
bool isArmFeature(std::string_view feature);

/// The implementer of a core and the core's part number, from the text of its
/// register MIDR_EL1 ("0x00000000413fd0c1"). Zeros if the text has no number.
struct ArmIdentity {
  unsigned implementer = 0, part = 0;

  static ArmIdentity read(const std::string &midr);
  /// That of this machine's first core.
  static ArmIdentity host();
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H
