//===- AttendCode.h - one task, for each width of vectors -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The room `paged` computes attention over pages (anabranch/PagedDecode.h).
// AttendTask.h has the code, which is compiled once for each width of vectors.

#ifndef ANABRANCH_PAGED_ATTENDCODE_H
#define ANABRANCH_PAGED_ATTENDCODE_H

#include "anabranch/PagedDecode.h"

namespace anabranch::paged {

/// Head sizes and page sizes are multiples of it: the floats of the widest
/// vectors.
constexpr int64_t widestVector = 16;
/// The heads of one key head that share what is read of it.
constexpr int64_t mostHeads = 8;

/// The memory for a task: the query and the weights of a few heads.
struct ScratchLayout {
  explicit ScratchLayout(const PagedDecode &decode, int64_t longest)
      : query(mostHeads * decode.headSize),
        pitch((longest + decode.pageSize) / decode.pageSize * decode.pageSize +
              widestVector) {}
  int64_t query; ///< floats of the query
  int64_t pitch; ///< floats between the weights of two heads
  int64_t floats() const { return query + mostHeads * pitch; }
};

using RunTask = void (*)(const PagedDecode &decode, int64_t request,
                         int64_t keyHead, float *scratch);
struct AttendCode {
  RunTask runBFloat, runFloat;
};

/// The code for the widest vectors that this processor has.
const AttendCode &attendCode();

/// The code for vectors of so many bytes, in files of their own. Null if the
/// file was compiled for a processor without them.
const AttendCode *attendCode16();
const AttendCode *attendCode32();
const AttendCode *attendCode64();

} // namespace anabranch::paged

#endif // ANABRANCH_PAGED_ATTENDCODE_H
