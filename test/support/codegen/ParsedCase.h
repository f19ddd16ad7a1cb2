//===- ParsedCase.h - the contraction of a test case ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H

#include "codegen/contraction/GemmBlocking.h"
#include "support/codegen/GemmCase.h"
#include "support/codegen/ParsedKernel.h"

#include "gtest/gtest.h"

namespace anabranch {
namespace codegen {

/// The contraction of a case, in a context of its own.
struct ParsedCase {
  explicit ParsedCase(const GemmCase &c) : parsed(kernelText(c)) {
    std::string why;
    found = Contraction::find(parsed.function(), why);
    EXPECT_TRUE(found) << why;
  }
  GemmBlocking blocking(const TargetInfo &target) const {
    return GemmBlocking::choose(*found, target);
  }

  ParsedKernel parsed;
  std::optional<Contraction> found;
};

inline TargetInfo targetOf(const char *name) {
  return llvm::cantFail(TargetInfo::get(name));
}

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_PARSEDCASE_H
