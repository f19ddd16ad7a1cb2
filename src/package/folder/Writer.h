//===- Writer.h - write a package folder ------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_FOLDER_WRITER_H
#define ANABRANCH_PACKAGE_FOLDER_WRITER_H

#include "package/files/Safetensors.h"
#include "package/program_generated.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::package {

/// What a package is made of.
struct Contents {
  const ProgramT *program = nullptr;
  /// The kernel library: the path of a finished ELF file (moved into the
  /// package when `takeKernels`, else copied). Empty when the program has no
  /// kernels.
  std::string kernelsPath;
  bool takeKernels = false;
  std::vector<Constant> constants;
  /// "x86-64" and the names of the features that the kernels use, as
  /// package/targets/CpuFeatures.h spells them ("avx2", "fma", "avx512f").
  std::string targetCpu;
  std::vector<std::string> targetFeatures;
  /// The whole configuration that the compiler ran with, as JSON text.
  std::string config;
  /// More top-level strings for the manifest, such as "model".
  std::map<std::string, std::string> extras;
  /// Hashes let a later `open` find changed files; a private package that is
  /// opened at once by its writer does without.
  bool hashFiles = true;
};

/// Writes the folder `path`, readable by its owner only: beside it first, then
/// by rename, so that no reader sees half a package. An existing package there
/// is replaced; any other existing thing is an error. Any thread.
Status writePackage(const std::string &path, const Contents &contents);

/// The bytes of program.bin.
std::string serializeProgram(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_WRITER_H
