//===- CompiledCase.h - cases that tests compile ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// For tests with two parameters: a target's name, and a case, which is a struct
// with a `name` that describes one kernel.

#ifndef ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H

#include "support/kernels/ChosenProduct.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

namespace anabranch {
namespace kernels {

template <typename CaseT> using TargetAndCase = std::tuple<const char *, CaseT>;

template <typename CaseT>
std::string caseName(const testing::TestParamInfo<TargetAndCase<CaseT>> &info) {
  return native::testNameOf(
      {std::get<0>(info.param), std::get<1>(info.param).name});
}

/// Compiles a kernel, and prints how long that took. If it returns no library,
/// the test has failed.
inline std::optional<KernelLibrary>
compileCase(const std::string &text, const native::TargetInfo &target) {
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

/// The same of a kernel for which the row must have a plan.
inline std::optional<KernelLibrary>
compileCase(const PlanRow &row, const std::string &text,
            const native::TargetInfo &target) {
  native::ParsedKernel parsed(text);
  if (!parsed) {
    ADD_FAILURE() << text;
    return std::nullopt;
  }
  if (Proposal found = row.propose(parsed.function(), target); !found.plan)
    ADD_FAILURE() << found.refusal;
  return compileCase(text, target);
}

/// The same of a kernel that a plan of a product must make.
inline std::optional<KernelLibrary>
compileProduct(const std::string &text, const native::TargetInfo &target) {
  native::ParsedKernel parsed(text);
  if (!parsed) {
    ADD_FAILURE() << text;
    return std::nullopt;
  }
  ChosenProduct plan(parsed.function(), target);
  return compileCase(text, target);
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_COMPILEDCASE_H
