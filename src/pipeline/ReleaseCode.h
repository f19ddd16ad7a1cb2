//===- ReleaseCode.h - the compiler's code leaves memory ------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_RELEASECODE_H
#define ANABRANCH_PIPELINE_RELEASECODE_H

#include <chrono>

namespace anabranch {
namespace pipeline {

/// Gives back the pages of the code and constant data of this library, MLIR and
/// LLVM. They stay in the system's page cache, and return one by one when
/// touched. So any thread may call this at any time, while others compile.
void releaseCode();

/// Gives back the code of phases that are over. A small model's phases take a
/// few milliseconds each, of which touching pages again would be a third: their
/// code stays until the compilation ends.
class CodeOfPhases {
public:
  void release();

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point released = Clock::now();
};

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_RELEASECODE_H
