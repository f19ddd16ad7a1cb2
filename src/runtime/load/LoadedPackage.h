//===- LoadedPackage.h - what the programs of a package share ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H
#define ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H

#include "anabranch/Executable.h"
#include "package/folder/Reader.h"
#include "runtime/device/Library.h"
#include "runtime/execute/CallFrame.h"
#include "runtime/load/OwnHost.h"

namespace anabranch::runtime {

/// A package that was read, with its kernels and the memory that its programs
/// share.
struct LoadedPackage {
  /// Reads and checks the folder. The package uses arenas and weights of
  /// `donor`, if both run on one device. Null: no donor.
  static Expected<std::shared_ptr<LoadedPackage>>
  open(const std::string &path, const OpenOptions &options,
       const std::shared_ptr<const LoadedPackage> &donor);
  ~LoadedPackage();

  std::unique_ptr<package::Package> package;
  std::unique_ptr<Library> library;
  const Device *device = nullptr;
  HostCalls *host = nullptr;
  /// Set where the caller gives no host: it is `host` then.
  std::unique_ptr<OwnHost> ownHost;
  int threads = 0;
  void *persistent = nullptr; ///< filled by the programs' `initialize`
  size_t persistentBytes = 0;
  size_t persistentInUse = 0; ///< bytes of it that programs still use
  /// One arena for each call in flight, whichever program it runs.
  std::shared_ptr<ArenaPool> arenas;
  /// The package whose weights and arenas this one uses.
  std::shared_ptr<const LoadedPackage> donor;

private:
  Status loadKernels();
  Status reservePersistent();
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_LOADEDPACKAGE_H
