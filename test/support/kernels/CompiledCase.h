//===- CompiledCase.h - cases of one kernel choice --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// For tests with two parameters: a target's name, and a case, which is a struct
// with a `name` that describes one kernel.

#ifndef ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H

#include "kernels/emit/KernelChoice.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

namespace anabranch {
namespace kernels {

template <typename CaseT> using TargetAndCase = std::tuple<const char *, CaseT>;

template <typename CaseT>
std::string caseName(const testing::TestParamInfo<TargetAndCase<CaseT>> &info) {
  return std::string(std::get<0>(info.param)) + "_" +
         std::get<1>(info.param).name;
}

/// Compiles a kernel that the choice must accept, and prints how long that
/// took. If it returns no library, the test has failed.
inline std::optional<KernelLibrary>
compileCase(const KernelChoice &choice, const std::string &text,
            const native::TargetInfo &target) {
  native::ParsedKernel parsed(text);
  if (!parsed) {
    ADD_FAILURE() << text;
    return std::nullopt;
  }
  if (auto refusal = choice.refusal(parsed.function(), target))
    ADD_FAILURE() << *refusal;
  auto library = KernelLibrary::fromText(text, target);
  if (!library) {
    ADD_FAILURE() << llvm::toString(library.takeError()) << text;
    return std::nullopt;
  }
  std::printf("%s: %.0f ms\n",
              testing::UnitTest::GetInstance()->current_test_info()->name(),
              library->objects()[0].totalMs());
  return std::move(*library);
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H
