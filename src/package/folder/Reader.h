//===- Reader.h - read and check a package folder ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

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
  /// Refuses a package whose kernels need features that this CPU lacks. The
  /// null device and `inspect` turn it off.
  bool checkCpu = true;
  /// The target to run. Empty: the best that this CPU can run.
  std::string target;
  /// The level of trust (package/files/Trust.h) by name, or empty.
  std::string trust;
};

/// A package that passed every check. Constants stay mapped, shared and
/// read-only, as long as this object lives.
struct Package {
  std::string path;
  Manifest manifest;
  ProgramT program;
  Safetensors constants;
  std::string target;      ///< empty: the program is at the top
  std::string kernelsPath; ///< empty if there are no kernels
  Mapping
      prepared; ///< the memory that `initialize` fills; empty: it has to run

  /// All programs, regions included (verify/Programs.h).
  std::vector<const ProgramT *> programs() const;
  /// The programs that a call may begin in: all but the regions.
  std::vector<const ProgramT *> entries() const;
};

/// Opens the folder. Refuses, with a reason, a package that is truncated,
/// changed, foreign, made for another CPU or version, or writable by others.
/// Any thread.
Expected<std::unique_ptr<Package>> readPackage(const std::string &path,
                                               const ReadOptions &options = {});

/// Parses the program in `bytes` and checks its structure
/// (package/verify/ProgramVerifier.h).
Expected<ProgramT> parseProgram(const void *bytes, size_t size);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_READER_H
