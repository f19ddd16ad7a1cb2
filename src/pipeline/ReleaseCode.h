//===- ReleaseCode.h - the compiler's code leaves memory ------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_RELEASECODE_H
#define ANABRANCH_PIPELINE_RELEASECODE_H

namespace anabranch {
namespace pipeline {

/// Gives back the pages of the code and constant data of this library, MLIR and
/// LLVM. They stay in the system's page cache, and return one by one when
/// touched. So any thread may call this at any time, while others compile.
void releaseCode();

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_RELEASECODE_H
