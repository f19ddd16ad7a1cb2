//===- ParsedCase.h - the contraction of a test case ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H

#include "kernels/contraction/Contraction.h"
#include "support/kernels/ChosenProduct.h"
#include "support/kernels/GemmCase.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

namespace anabranch {
namespace kernels {

/// The contraction of a case, in a context of its own.
struct ParsedCase {
  explicit ParsedCase(const GemmCase &c) : parsed(kernelText(c)) {
    std::string why;
    found = Contraction::find(parsed.function(), why);
    EXPECT_TRUE(found) << why;
  }
  ChosenProduct plan(const native::TargetInfo &target) const {
    return ChosenProduct(parsed.function(), target);
  }

  native::ParsedKernel parsed;
  std::optional<Contraction> found;
};

inline native::TargetInfo targetOf(const char *name) {
  return llvm::cantFail(native::TargetInfo::get(name));
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H
