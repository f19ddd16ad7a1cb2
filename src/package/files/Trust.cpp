//===- Trust.cpp - whose files may be read as code ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Trust.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace anabranch::package {
namespace {

constexpr const char *trustNames[] = {"user", "group", "anyone"};

bool isOurGroup(gid_t group) {
  if (group == ::getegid())
    return true;
  int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(count, 0)));
  count = ::getgroups(count, groups.data());
  return count > 0 && std::find(groups.begin(), groups.begin() + count,
                                group) != groups.begin() + count;
}

/// Why a level refuses the file. Null if it accepts it.
const char *whyNot(const struct stat &info, Trust trust) {
  if (trust == Trust::Anyone)
    return "";
  bool group = trust == Trust::Group && isOurGroup(info.st_gid);
  if (info.st_uid != ::geteuid() && info.st_uid != 0 && !group)
    return "it belongs to another user";
  if ((info.st_mode & S_IWOTH) || ((info.st_mode & S_IWGRP) && !group))
    return "others than its owner may write to it";
  return "";
}

Status refuse(const std::string &what, const std::string &why, Trust enough) {
  std::string level = trustNames[static_cast<int>(enough)];
  return Status(StatusCode::BadPackage,
                what + " is refused: " + why + "; trust=\"" + level +
                    "\" or ANABRANCH_TRUST=" + level + " accepts it");
}

} // namespace

Expected<Trust> trustNamed(const std::string &name) {
  const char *variable = std::getenv("ANABRANCH_TRUST");
  std::string wanted = !name.empty() ? name : variable ? variable : "";
  if (wanted.empty())
    return Trust::User;
  for (Trust trust : {Trust::User, Trust::Group, Trust::Anyone})
    if (wanted == trustNames[static_cast<int>(trust)])
      return trust;
  return Status(StatusCode::InvalidArgument,
                std::string(name.empty() ? "ANABRANCH_TRUST" : "trust") +
                    " must be user, group or anyone, not '" + wanted + "'");
}

Status checkTrusted(int descriptor, const std::string &what, mode_t kind,
                    Trust trust) {
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return Status(StatusCode::IoError, "cannot read owner and mode of " + what +
                                           ": " + std::strerror(errno));
  if ((info.st_mode & S_IFMT) != kind)
    return Status(StatusCode::BadPackage,
                  what + " is refused: it is not a " +
                      (kind == S_IFDIR ? "folder" : "regular file"));
  std::string why = whyNot(info, trust);
  if (why.empty())
    return {};
  bool group = !*whyNot(info, Trust::Group);
  return refuse(what, why, group ? Trust::Group : Trust::Anyone);
}

Status refuseLink(const std::string &what) {
  return refuse(what, "it is a link", Trust::Group);
}

mode_t fileMode(Trust trust) {
  return trust == Trust::User ? 0600 : trust == Trust::Group ? 0660 : 0666;
}

mode_t folderMode(Trust trust) {
  return trust == Trust::User ? 0700 : trust == Trust::Group ? 0770 : 0777;
}

} // namespace anabranch::package
