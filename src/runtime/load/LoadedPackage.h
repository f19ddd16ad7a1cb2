//===- LoadedPackage.h - what the programs of a package share ---*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H
#define ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H

#include "anabranch/Executable.h"
#include "package/folder/Reader.h"
#include "runtime/device/Library.h"
#include "runtime/execute/CallFrame.h"

namespace anabranch::runtime {

/// A package that was read, with its kernels and the memory that its programs
/// share.
struct LoadedPackage {
  /// Reads and checks the folder. `donor` is another package whose arenas and
  /// weights may be used, if both run on one device; null: none.
  static Expected<std::shared_ptr<LoadedPackage>>
  open(const std::string &path, const OpenOptions &options,
       const std::shared_ptr<const LoadedPackage> &donor);
  ~LoadedPackage();

  std::unique_ptr<package::Package> package;
  std::unique_ptr<Library> library;
  const Device *device = nullptr;
  HostCalls *host = nullptr;
  int threads = 0;
  void *persistent = nullptr; ///< made by the programs' initialisations
  size_t persistentBytes = 0;
  size_t persistentInUse = 0; ///< of these bytes
  /// One for each call that runs at a time, whichever program it runs.
  std::shared_ptr<ArenaPool> arenas;
  /// The package whose weights and arenas are used.
  std::shared_ptr<const LoadedPackage> donor;

private:
  Status loadKernels();
  Status reservePersistent();
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H
