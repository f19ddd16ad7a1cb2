//===- Staging.h - a package that is being written --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FOLDER_STAGING_H
#define ANABRANCH_PACKAGE_FOLDER_STAGING_H

#include "package/files/Files.h"
#include "package/files/Manifest.h"
#include "package/files/Safetensors.h"

#include <functional>

namespace anabranch::package {

/// Whether `publish` replaces a package that exists at its place.
enum class Existing { Replace, Refuse };

/// A half-written package beside its place. The destructor removes it unless it
/// was published.
class Staging {
public:
  explicit Staging(const std::string &target);
  ~Staging();

  Status make();
  /// Makes a folder inside, such as "targets/x86-64-v4".
  Expected<Descriptor> makeFolder(const std::string &name);
  /// Publishes the package by one rename: a reader sees nothing, the old
  /// package or the new one. If something else than a package exists at
  /// `target`, it stays, and that is an error.
  Status publish(const std::string &target, Existing existing);

  std::string path;
  Descriptor folder;

private:
  bool made = false;
};

/// Calls `write` with the path, without slashes at its end. An exception of
/// `write` becomes a status.
Status guarded(const std::string &path,
               const std::function<Status(const std::string &)> &write);

Status writeText(const Descriptor &folder, const std::string &name,
                 const std::string &text, bool hash, ManifestFile &row);
Status writeConstants(const Descriptor &folder,
                      const std::vector<Constant> &constants, bool hash,
                      ManifestFile &row);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_STAGING_H
