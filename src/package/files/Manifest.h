//===- Manifest.h - what a package says about itself ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FILES_MANIFEST_H
#define ANABRANCH_PACKAGE_FILES_MANIFEST_H

#include "anabranch/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::package {

/// Raise it when older readers can no longer read what a writer writes.
inline constexpr int formatVersion = 4;

struct ManifestFile {
  uint64_t bytes = 0;
  std::string hash; ///< a FileHash; empty if the writer did not hash
};

/// A processor for which the package has code, in the folder targets/<name>.
struct ManifestTarget {
  std::string name;
  std::string cpu;                   ///< "x86-64", empty without kernels
  std::vector<std::string> features; ///< that the CPU must have
  std::vector<std::string> kernels;  ///< their symbols
  bool prepared = false; ///< prepared.bin holds the persistent memory
};

/// The names of inputs and outputs. The trees that Python puts them into stay
/// in `json`.
struct Signature {
  struct Input {
    std::string name;
    bool state = false; ///< calls update it; constants hold its first value
  };
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::string json; ///< the whole signature; empty: there is none
};

/// The name of the constant that holds the first value of a state.
inline std::string stateConstant(const std::string &input) {
  return "state:" + input;
}

/// The contents of manifest.json.
struct Manifest {
  int format = formatVersion;
  int abi = 0;           ///< ANABRANCH_KERNEL_ABI_VERSION of the writer
  std::string anabranch; ///< the writer's version; for people only
  std::string name;      ///< the program's name
  std::string cpu;       ///< "x86-64", empty without kernels
  std::vector<std::string> features; ///< that the CPU must have
  /// The best target first. Empty: the program is at the top, made for `cpu`.
  /// Otherwise `cpu` and `features` are empty.
  std::vector<ManifestTarget> targets;
  Signature signature;
  bool needsLibtorch = false;
  std::vector<std::string> kernels; ///< their symbols
  std::map<std::string, ManifestFile> files;
  std::string config; ///< JSON text
  std::map<std::string, std::string> extras;
};

/// Whether a folder may have this name: letters, digits, "-", "_" and ".",
/// without a "." in front.
bool isTargetName(std::string_view name);

std::string toJson(const Manifest &manifest);
Expected<Manifest> parseManifest(std::string_view json);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_MANIFEST_H
