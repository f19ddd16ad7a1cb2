//===- Library.h - kernels.so in this process -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_LIBRARY_H
#define ANABRANCH_RUNTIME_DEVICE_LIBRARY_H

#include "anabranch/Status.h"

#include <memory>
#include <string>

namespace anabranch::runtime {

/// A loaded shared library. The destructor unloads it. Any thread.
class Library {
public:
  static Expected<std::unique_ptr<Library>> load(const std::string &path);
  ~Library();
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  /// Null if there is no such symbol.
  void *symbol(const std::string &name) const;

private:
  Library(void *handle, std::string name)
      : handle(handle), loadedAs(std::move(name)) {}
  void *handle;
  std::string loadedAs;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_LIBRARY_H
