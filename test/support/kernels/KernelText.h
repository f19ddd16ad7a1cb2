//===- KernelText.h - kernels as text ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TEST_SUPPORT_CODEGEN_KERNELTEXT_H
#define ANABRANCH_TEST_SUPPORT_CODEGEN_KERNELTEXT_H

#include <string>

namespace anabranch {
namespace kernels {

/// Replaces each place of `from` in the text of a kernel.
inline void replaceAll(std::string &text, const std::string &from,
                       const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_TEST_SUPPORT_CODEGEN_KERNELTEXT_H
