//===- Manifest.h - what a package says about itself ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_MANIFEST_H
#define ANABRANCH_PACKAGE_MANIFEST_H

#include "anabranch/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::package {

/// Raised when older readers can no longer read what a writer writes.
inline constexpr int formatVersion = 1;

struct ManifestFile {
  uint64_t bytes = 0;
  std::string sha256; ///< lower-case hex, empty when the writer did not hash
};

/// manifest.json.
struct Manifest {
  int format = formatVersion;
  int abi = 0;           ///< ANABRANCH_KERNEL_ABI_VERSION of the writer
  std::string anabranch; ///< the writer's version, for the reader's eyes only
  std::string name;      ///< the program's name
  std::string cpu;       ///< "x86-64", empty without kernels
  std::vector<std::string> features; ///< needed from the CPU
  bool needsLibtorch = false;
  std::vector<std::string> kernels; ///< their symbols
  std::map<std::string, ManifestFile> files;
  std::string config; ///< JSON text
  std::map<std::string, std::string> extras;
};

std::string toJson(const Manifest &manifest);
Expected<Manifest> parseManifest(std::string_view json);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_MANIFEST_H
