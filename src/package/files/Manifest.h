//===- Manifest.h - what a package says about itself ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_FILES_MANIFEST_H
#define ANABRANCH_PACKAGE_FILES_MANIFEST_H

#include "anabranch/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::package {

/// Raised when older readers can no longer read what a writer writes.
inline constexpr int formatVersion = 3;

struct ManifestFile {
  uint64_t bytes = 0;
  std::string hash; ///< a FileHash, empty when the writer did not hash
};

/// One processor that a package has code for, in the folder targets/<name>.
struct ManifestTarget {
  std::string name;
  std::string cpu;                   ///< "x86-64", empty without kernels
  std::vector<std::string> features; ///< needed from the CPU
  std::vector<std::string> kernels;  ///< their symbols
  bool prepared = false;             ///< prepared.bin holds what is persistent
};

/// Names, as users see them. The trees that hold inputs and outputs together
/// are for Python only and stay in `json`.
struct Signature {
  struct Input {
    std::string name;
    bool state = false; ///< written in place, with a first value in constants
  };
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::string json; ///< the whole; empty: the package has no signature
};

/// The constant that holds the first value of a state.
inline std::string stateConstant(const std::string &input) {
  return "state:" + input;
}

/// manifest.json.
struct Manifest {
  int format = formatVersion;
  int abi = 0;           ///< ANABRANCH_KERNEL_ABI_VERSION of the writer
  std::string anabranch; ///< the writer's version, for the reader's eyes only
  std::string name;      ///< the program's name
  std::string cpu;       ///< "x86-64", empty without kernels
  std::vector<std::string> features; ///< needed from the CPU
  /// Best first. Empty: the program lies at the top, made for `cpu`; else `cpu`
  /// and `features` are empty.
  std::vector<ManifestTarget> targets;
  Signature signature;
  bool needsLibtorch = false;
  std::vector<std::string> kernels; ///< their symbols
  std::map<std::string, ManifestFile> files;
  std::string config; ///< JSON text
  std::map<std::string, std::string> extras;
};

/// Whether a folder may have this name: letters, digits, "-", "_" and ".", not
/// first a ".".
bool isTargetName(std::string_view name);

std::string toJson(const Manifest &manifest);
Expected<Manifest> parseManifest(std::string_view json);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_MANIFEST_H
