//===- RuntimeOperator.h - which calls need no host -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The runtime itself runs a Call whose operator is in the namespace `runtime`
// (runtime/operators). A host such as PyTorch runs all others.

#ifndef ANABRANCH_PACKAGE_VERIFY_RUNTIMEOPERATOR_H
#define ANABRANCH_PACKAGE_VERIFY_RUNTIMEOPERATOR_H

#include <string_view>

namespace anabranch::package {

inline bool isRuntimeOperator(std::string_view name) {
  constexpr std::string_view space = "runtime::";
  return name.substr(0, space.size()) == space;
}

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_RUNTIMEOPERATOR_H
