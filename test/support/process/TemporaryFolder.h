//===- TemporaryFolder.h - a folder of its own for one test -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_PROCESS_TEMPORARYFOLDER_H
#define ANABRANCH_SUPPORT_PROCESS_TEMPORARYFOLDER_H

#include <cstdlib>
#include <filesystem>
#include <string>

namespace anabranch::testing {

class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "anabranch-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_PROCESS_TEMPORARYFOLDER_H
