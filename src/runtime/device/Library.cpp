//===- Library.cpp - kernels.so in this process ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/Library.h"

#include "process/Fork.h"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/stat.h>

namespace anabranch::runtime {

namespace {

/// The loader identifies a library by its path: it would return the loaded one,
/// even if another package was published at that path since. So each loaded
/// file gets a spelling of its path that no other loaded file has.
struct Spelling {
  dev_t device;
  ino_t inode;
  int users;
};

std::mutex &mutex() {
  static auto *m = new std::mutex;
  return *m;
}

std::map<std::string, Spelling> &spellings() {
  static auto *map = new std::map<std::string, Spelling>;
  return *map;
}

std::string claimSpelling(const std::string &path, const struct stat &file) {
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  for (;; folder += "/.") {
    std::string candidate = folder;
    candidate.append("/").append(name);
    auto [it, fresh] =
        spellings().insert({candidate, {file.st_dev, file.st_ino, 0}});
    if (it->second.device == file.st_dev && it->second.inode == file.st_ino) {
      ++it->second.users;
      return candidate;
    }
  }
}

void dropSpelling(const std::string &name) {
  auto it = spellings().find(name);
  if (--it->second.users == 0)
    spellings().erase(it);
}

} // namespace

Expected<std::unique_ptr<Library>> Library::load(const std::string &path) {
  struct stat file;
  if (::stat(path.c_str(), &file) != 0)
    return Status(StatusCode::IoError, "cannot find " + path);
  NoFork section;
  std::lock_guard<std::mutex> lock(mutex());
  std::string name = claimSpelling(path, file);
  void *handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = ::dlerror();
    dropSpelling(name);
    return Status(StatusCode::BadPackage,
                  std::string("cannot load the kernels: ") +
                      (why ? why : "unknown"));
  }
  return std::unique_ptr<Library>(new Library(handle, std::move(name)));
}

Library::~Library() {
  NoFork section;
  std::lock_guard<std::mutex> lock(mutex());
  ::dlclose(handle);
  dropSpelling(loadedAs);
}

void *Library::symbol(const std::string &name) const {
  return ::dlsym(handle, name.c_str());
}

} // namespace anabranch::runtime
