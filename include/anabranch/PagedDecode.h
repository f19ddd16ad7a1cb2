//===- PagedDecode.h - attention of one token over pages --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A server keeps the keys and values of its requests in pages, and each request
// has a list of pages:
//
//   pages of request 0   7 2 -     its tokens 0 to 127 are in page 7
//   pages of request 1   4 - -
//
//   keys of a page       [key heads][head size][page size]
//   values of a page     [key heads][page size][head size]
//
// In a step of decoding each request has one new token, its last one. The step
// writes the token's key and value, and attends to all tokens of the request.

#ifndef ANABRANCH_PAGEDDECODE_H
#define ANABRANCH_PAGEDDECODE_H

#include "anabranch/Status.h"
#include "anabranch/Tensor.h"

#include <cstdint>

namespace anabranch {

/// One step of decoding. Steps between elements are counted in elements, and
/// neighbours in a head or a page lie side by side.
struct PagedDecode {
  DType dtype; ///< of the query, keys, values and output: BF16 or F32
  int64_t requests, heads, keyHeads, headSize, pageSize;
  float scale;
  /// A request attends to its last `window` tokens; 0: to all.
  int64_t window;

  const void *query; ///< [requests][heads][head size]
  const void *key;   ///< [requests][key heads][head size]
  const void *value;
  int64_t queryStep, keyStep, valueStep; ///< between requests
  void *output;                          ///< as the query, without gaps

  void *keys, *values;
  int64_t pages;              ///< in the cache
  int64_t pageStep, headStep; ///< between pages and between their heads

  const int32_t *table; ///< [requests][pages of a request]
  int64_t tableWidth, tableStep;
  const int32_t *lengths; ///< tokens of each request, the new one included
  const int64_t *slots;   ///< page * page size + place of each new token
};

/// Whether `attendPages` can run the step. InvalidArgument: the sizes do not
/// fit its vectors, or a page, a length or a slot is outside of the cache.
ANABRANCH_API Status checkPagedDecode(const PagedDecode &decode);

/// The floats of scratch memory that a thread needs for the step.
ANABRANCH_API int64_t pagedDecodeScratch(const PagedDecode &decode);

/// Runs some of the step's tasks. There are `requests * keyHeads`, and any
/// threads may run different ones at once.
ANABRANCH_API void attendPages(const PagedDecode &decode, int64_t firstTask,
                               int64_t endTask, float *scratch);

} // namespace anabranch

#endif // ANABRANCH_PAGEDDECODE_H
