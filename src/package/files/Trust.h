//===- Trust.h - whose files may be read as code ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_FILES_TRUST_H
#define ANABRANCH_PACKAGE_FILES_TRUST_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>
#include <sys/stat.h>

namespace anabranch::package {

/// Code and constants run in our process. Each level accepts what those before
/// it do.
enum class Trust : uint8_t {
  User,  ///< what this user or root owns and nobody else may write
  Group, ///< what a group of this process owns or may write; links
  Anyone ///< any owner and any mode
};

/// "user", "group" or "anyone"; empty: what ANABRANCH_TRUST says, else "user".
/// InvalidArgument for any other word.
Expected<Trust> trustNamed(const std::string &name);

/// Refuses a file of another kind than S_IFREG or S_IFDIR, and one that is not
/// trusted. The reason says which level would accept it.
Status checkTrusted(int descriptor, const std::string &what, mode_t kind,
                    Trust trust);

/// The same reason for a link, which only some levels follow.
Status refuseLink(const std::string &what);

/// Modes of what is written for others of this level to read and replace.
mode_t fileMode(Trust trust);
mode_t folderMode(Trust trust);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_TRUST_H
