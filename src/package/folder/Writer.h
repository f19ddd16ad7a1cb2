//===- Writer.h - write a package folder ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FOLDER_WRITER_H
#define ANABRANCH_PACKAGE_FOLDER_WRITER_H

#include "package/files/Safetensors.h"
#include "package/program_generated.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::package {

/// The contents of a package.
struct Contents {
  const ProgramT *program = nullptr;
  /// The kernel library: the path of a finished ELF file. It is moved into the
  /// package if `takeKernels`, else copied. Empty if the program has no
  /// kernels.
  std::string kernelsPath;
  bool takeKernels = false;
  std::vector<Constant> constants;
  /// "x86-64", and the features that the kernels use, in the spelling of
  /// machine/processor/CpuFeatures.h ("avx2", "fma", "avx512f").
  std::string targetCpu;
  std::vector<std::string> targetFeatures;
  /// The whole configuration that the compiler ran with, as JSON text.
  std::string config;
  /// More top-level strings for the manifest, such as "model".
  std::map<std::string, std::string> extras;
  /// With hashes, a later `open` detects changed files. A writer that opens its
  /// own package at once needs none.
  bool hashFiles = true;
};

/// Writes the folder `path`, readable by its owner only: first beside it, then
/// by a rename, so that no reader sees half a package. It replaces a package
/// that exists there; anything else there is an error. Any thread.
Status writePackage(const std::string &path, const Contents &contents);

/// The bytes of program.bin.
std::string serializeProgram(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_WRITER_H
