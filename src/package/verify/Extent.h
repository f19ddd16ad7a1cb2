//===- Extent.h - which bytes a buffer and a command touch ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_EXTENT_H
#define ANABRANCH_PACKAGE_VERIFY_EXTENT_H

#include "package/program_generated.h"

#include <cstdint>
#include <optional>

namespace anabranch::package {

/// The bytes from a buffer's first element to the end of its last one.
struct Extent {
  bool fits;   ///< no overflow and no negative stride
  int64_t end; ///< in bytes; 0 if the buffer has no element
};

/// The extent of a buffer; none if a size or stride is dynamic.
std::optional<Extent> staticExtent(DType dtype, const std::vector<Size> &shape,
                                   const std::vector<Size> &strides);
std::optional<Extent> staticExtent(const BufferT &buffer);

/// The extent for these numbers. Null `strides` mean contiguous.
Extent extentOf(const int64_t *shape, const int64_t *strides, size_t rank,
                size_t itemBytes);

/// Whether a part that begins `begin` items after the first element of `whole`
/// ends within it.
bool liesWithin(const Extent &part, int64_t begin, const Extent &whole,
                size_t itemBytes);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_EXTENT_H
