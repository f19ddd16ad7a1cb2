//===- ReleaseCode.h - the compiler's code leaves memory ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PIPELINE_RELEASECODE_H
#define ANABRANCH_PIPELINE_RELEASECODE_H

namespace anabranch {
namespace pipeline {

/// Gives back the pages of this library's, MLIR's and LLVM's code and constant
/// data. They stay in the system's page cache, and come back one by one when
/// touched, so any thread may call this at any time, others compiling or not.
void releaseCode();

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_RELEASECODE_H
