//===- Reader.h - read and check a package folder ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_FOLDER_READER_H
#define ANABRANCH_PACKAGE_FOLDER_READER_H

#include "anabranch/Tensor.h"
#include "package/files/Manifest.h"
#include "package/files/Safetensors.h"
#include "package/program_generated.h"

#include <memory>
#include <string>
#include <vector>

namespace anabranch::package {

struct ReadOptions {
  bool checkHashes = true;
  /// Refuses a package whose kernels need what this CPU lacks. The null device
  /// and `inspect` do without.
  bool checkCpu = true;
  /// The target to run; empty: the best that this CPU can.
  std::string target;
  /// Whose files are read (package/files/Trust.h): a level's name, or empty.
  std::string trust;
};

/// A package that passed every check. Constants stay mapped, shared and
/// read-only, as long as this lives.
struct Package {
  std::string path;
  Manifest manifest;
  ProgramT program;
  Safetensors constants;
  std::string target;      ///< empty: the program lies at the top
  std::string kernelsPath; ///< empty when there are no kernels
  Mapping prepared;        ///< what `initialize` makes; empty: it has to run

  /// The program and its variants.
  std::vector<const ProgramT *> programs() const;
};

/// Opens the folder and refuses, with a reason, what is truncated, changed,
/// foreign, made for another CPU or version, or writable by others. Any thread.
Expected<std::unique_ptr<Package>> readPackage(const std::string &path,
                                               const ReadOptions &options = {});

/// The program in `bytes`, structurally checked
/// (package/verify/ProgramVerifier.h).
Expected<ProgramT> parseProgram(const void *bytes, size_t size);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_READER_H
