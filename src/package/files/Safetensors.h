//===- Safetensors.h - constants on disk, mapped ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The format of https://github.com/huggingface/safetensors: eight bytes with
// the header's length, a JSON header, and the tensors' bytes. The format allows
// no holes, so small "__padding__" tensors align the others to 64 bytes.

#ifndef ANABRANCH_PACKAGE_FILES_SAFETENSORS_H
#define ANABRANCH_PACKAGE_FILES_SAFETENSORS_H

#include "anabranch/Tensor.h"
#include "package/files/Mapping.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace anabranch::package {

/// A tensor to write to constants.safetensors. The writer borrows its bytes,
/// and stores them row-major contiguous.
struct Constant {
  std::string name;
  anabranch::DType dtype = anabranch::DType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::vector<int64_t> strides = {}; ///< in elements; empty: contiguous
};

struct StoredTensor {
  anabranch::DType dtype = anabranch::DType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr; ///< row-major contiguous
  uint64_t bytes = 0;
};

/// A mapped file. Moving the object keeps the tensors' addresses.
class Safetensors {
public:
  /// Checks the header of a mapped file.
  static Expected<Safetensors> read(Mapping file);

  /// Null if there is no such tensor.
  const StoredTensor *find(const std::string &name) const;
  const std::unordered_map<std::string, StoredTensor> &all() const {
    return tensors;
  }

  /// Takes the file's pages out of this process. A later read gets them from
  /// the page cache. Any thread.
  void releasePages() const { file.releasePages(); }

private:
  Status parse();
  Mapping file;
  std::unordered_map<std::string, StoredTensor> tensors;
};

/// The header (length and JSON) for `constants`, and the offset of each in the
/// file.
Expected<std::string> safetensorsHeader(const std::vector<Constant> &constants,
                                        std::vector<uint64_t> &offsets);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_SAFETENSORS_H
