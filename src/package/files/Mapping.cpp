//===- Mapping.cpp - a file of a package in memory ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

namespace anabranch::package {

Mapping::Mapping(Mapping &&other) noexcept
    : base(std::exchange(other.base, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  return *this;
}

Mapping::~Mapping() {
  if (base)
    ::munmap(base, bytes);
}

Expected<Mapping> Mapping::map(int descriptor, const std::string &name) {
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return Status(StatusCode::BadPackage,
                  name + " has no size that can be read");
  Mapping result;
  result.bytes = static_cast<uint64_t>(info.st_size);
  if (result.bytes == 0)
    return result;
  void *base =
      ::mmap(nullptr, result.bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED)
    return Status(StatusCode::OutOfMemory, "cannot map " + name);
  result.base = base;
  return result;
}

void Mapping::releasePages() const {
  if (base)
    ::madvise(base, bytes, MADV_DONTNEED); // a hint, which may fail
}

} // namespace anabranch::package
