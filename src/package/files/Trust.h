//===- Trust.h - whose files may be read as code ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FILES_TRUST_H
#define ANABRANCH_PACKAGE_FILES_TRUST_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>
#include <sys/stat.h>

namespace anabranch::package {

/// The owners whose files may be read: code of files runs in this process. Each
/// level also accepts what the levels before it accept.
enum class Trust : uint8_t {
  User,  ///< owned by this user or root, and writable by nobody else
  Group, ///< owned or writable by a group of this process; links
  Anyone ///< any owner and any mode
};

/// The level "user", "group" or "anyone"; for an empty name the value of
/// ANABRANCH_TRUST, else "user". InvalidArgument for any other word.
Expected<Trust> trustNamed(const std::string &name);

/// Refuses a file whose kind is not `kind` (S_IFREG or S_IFDIR), and one that
/// is not trusted. The reason names the level that would accept it.
Status checkTrusted(int descriptor, const std::string &what, mode_t kind,
                    Trust trust);

/// The refusal of a link, for the levels that follow none.
Status refuseLink(const std::string &what);

/// The modes of new files and folders, which others of this level may read and
/// replace.
mode_t fileMode(Trust trust);
mode_t folderMode(Trust trust);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_TRUST_H
