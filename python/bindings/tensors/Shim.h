//===- Shim.h - libtorch's stable C functions, as found ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The functions of libtorch's stable C interface that carry an operator's
// arguments and results. They are looked up in the libtorch of this process.
// Values cross as 64-bit words:
//   tensor, string, list   an owned handle, taken over by the callee
//   int, dtype and the like, bool, float    their bits
//   optional               null, or an owned word on the heap

#ifndef ANABRANCH_BINDINGS_SHIM_H
#define ANABRANCH_BINDINGS_SHIM_H

#include "anabranch/Tensor.h"

#include <cstddef>
#include <cstdint>

namespace anabranch::python {

using ShimWord = uint64_t;
using ShimHandle = void *;

/// Every function that can fail returns zero for success.
struct Shim {
  int (*call)(const char *op, const char *overload, ShimWord *stack,
              uint64_t version);
  int (*tensorFromBlob)(void *data, int64_t rank, const int64_t *sizes,
                        const int64_t *strides, int64_t offset, int32_t dtype,
                        int32_t deviceType, int32_t deviceIndex,
                        ShimHandle *out);
  int (*emptyStrided)(int64_t rank, const int64_t *sizes,
                      const int64_t *strides, int32_t dtype, int32_t deviceType,
                      int32_t deviceIndex, ShimHandle *out);
  int (*deleteTensor)(ShimHandle tensor);
  int (*isDefined)(ShimHandle tensor, bool *out);
  int (*dataPointer)(ShimHandle tensor, void **out);
  int (*rank)(ShimHandle tensor, int64_t *out);
  int (*sizes)(ShimHandle tensor, int64_t **out);
  int (*strides)(ShimHandle tensor, int64_t **out);
  int (*dtype)(ShimHandle tensor, int32_t *out);
  int (*layout)(ShimHandle tensor, int32_t *out);
  int (*clone)(ShimHandle tensor, ShimHandle *out);
  int (*newString)(const char *data, size_t length, ShimHandle *out);
  int (*deleteString)(ShimHandle string);
  int (*newList)(size_t reserve, ShimHandle *out);
  int (*pushBack)(ShimHandle list, ShimWord word);
  int (*listSize)(ShimHandle list, size_t *out);
  int (*listItem)(ShimHandle list, size_t index, ShimWord *out);
  int (*deleteList)(ShimHandle list);
  int (*newWord)(ShimWord **out);
  int (*deleteWord)(ShimWord *word);
  /// The message of the last failed call of this thread. Null in a libtorch
  /// that does not tell.
  const char *(*failure)() = nullptr;

  uint64_t version = 0;         ///< of the interface that this code speaks
  int32_t cpu = 0, strided = 0; ///< libtorch's numbers
  int32_t dtypes[dtypeCount] = {};
  int32_t memoryFormats[4] = {};

  /// Null if this libtorch lacks a function. Operators are then called through
  /// Python.
  static const Shim *get();
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SHIM_H
