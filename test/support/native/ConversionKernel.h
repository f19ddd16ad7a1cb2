//===- ConversionKernel.h - a kernel that converts elements -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_NATIVE_CONVERSIONKERNEL_H
#define ANABRANCH_SUPPORT_NATIVE_CONVERSIONKERNEL_H

#include "support/native/KernelLibrary.h"

#include "gtest/gtest.h"

#include <string>
#include <vector>

namespace anabranch {
namespace native {

inline std::string vectorOf(int64_t lanes, const std::string &element) {
  return "vector<" + std::to_string(lanes) + "x" + element + ">";
}

/// A conversion of vectors. `steps` makes %y, of elements `to`, from %x, of
/// elements `from`. LLVM has both types.
struct Conversion {
  int64_t lanes;
  std::string from, to, steps;
};

/// A kernel "convert" for sizes[0] elements, a multiple of the lanes.
inline std::string conversionText(const Conversion &conversion) {
  std::string text = R"mlir(
func.func @convert(%buffers: !llvm.ptr, %sizes: !llvm.ptr,
                   %scratch: !llvm.ptr, %tile: i64) -> i32 {
  %p1 = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %in = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %out = llvm.load %p1 : !llvm.ptr -> !llvm.ptr
  %size = llvm.load %sizes : !llvm.ptr -> i64
  %c0 = arith.constant 0 : i64
  %step = arith.constant LANES : i64
  scf.for %i = %c0 to %size step %step : i64 {
    %a = llvm.getelementptr %in[%i] : (!llvm.ptr, i64) -> !llvm.ptr, FROM
    %b = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, TO
    %x = llvm.load %a {alignment = 1 : i64} : !llvm.ptr -> VECTOR_OF_FROM
    STEPS
    llvm.store %y, %b {alignment = 1 : i64} : VECTOR_OF_TO, !llvm.ptr
  }
  %ok = arith.constant 0 : i32
  return %ok : i32
}
)mlir";
  auto replace = [&](const std::string &word, const std::string &by) {
    text.replace(text.find(word), word.size(), by);
  };
  replace("VECTOR_OF_FROM", vectorOf(conversion.lanes, conversion.from));
  replace("VECTOR_OF_TO", vectorOf(conversion.lanes, conversion.to));
  replace("FROM", conversion.from);
  replace("TO", conversion.to);
  replace("LANES", std::to_string(conversion.lanes));
  replace("STEPS", conversion.steps);
  return text;
}

/// Converts the numbers, whose count is a multiple of the lanes; none if this
/// processor lacks the target.
template <typename To, typename From>
std::vector<To> convert(const Conversion &conversion, const char *name,
                        std::vector<From> numbers) {
  auto target = llvm::cantFail(TargetInfo::get(name));
  auto library = llvm::cantFail(
      KernelLibrary::fromText(conversionText(conversion), target));
  if (!runs(target))
    return {};
  std::vector<To> results(numbers.size());
  EXPECT_EQ(library.run("convert", {numbers.data(), results.data()},
                        {int64_t(numbers.size())}),
            0);
  return results;
}

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_NATIVE_CONVERSIONKERNEL_H
