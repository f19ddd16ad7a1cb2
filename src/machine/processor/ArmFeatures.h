//===- ArmFeatures.h - features of 64-bit Arm, and the host's ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H
#define ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

/// The names of all features that `has` knows, and whether this is one.
std::vector<std::string_view> armFeatures();
bool isArmFeature(std::string_view feature);

/// The implementer of a core and the core's part number, from the text of its
/// register MIDR_EL1 ("0x00000000413fd0c1"). Zeros if the text has no number.
struct ArmIdentity {
  unsigned implementer = 0, part = 0;

  static ArmIdentity read(const std::string &midr);
  /// The same of the first core that /proc/cpuinfo lists.
  static ArmIdentity readCpuInfo(const std::string &text);
  /// That of this machine's first core: from sysfs, which containers may hide,
  /// or else from /proc/cpuinfo. Tests give another root.
  static ArmIdentity host(const std::string &root = "");
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_ARMFEATURES_H
