//===- Npy.h - NumPy's file format, as much as a tool needs -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TOOLS_NPY_H
#define ANABRANCH_TOOLS_NPY_H

#include "anabranch/Tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch::tools {

/// A row-major contiguous array that owns its bytes.
struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
  int64_t count() const;
};

/// Reads version 1 to 3 of the format, in C order, little-endian. NumPy has no
/// bf16 and f8: such files hold raw bytes ("<V2", "|V1"), which `expected`
/// gives a dtype.
Expected<Array> readNpy(const std::string &path, DType expected);

Status writeNpy(const std::string &path, const Array &array);

} // namespace anabranch::tools

#endif // ANABRANCH_TOOLS_NPY_H
