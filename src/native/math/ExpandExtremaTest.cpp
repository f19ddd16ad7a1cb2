//===- ExpandExtremaTest.cpp - what a running maximum waits for -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/ExpandExtrema.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "support/native/ParsedKernel.h"
#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::native;
using namespace mlir;

namespace {

/// A loop that carries %most, with these steps, which make %next.
std::string loopOf(const std::string &steps) {
  return "func.func @f(%x: memref<64xf32>, %n: index) -> f32 {\n"
         "  %zero = arith.constant 0 : index\n"
         "  %one = arith.constant 1 : index\n"
         "  %start = arith.constant 0xFF800000 : f32\n"
         "  %r = scf.for %i = %zero to %n step %one "
         "iter_args(%most = %start) -> f32 {\n"
         "    %a = memref.load %x[%i] : memref<64xf32>\n"
         "    %b = memref.load %x[%zero] : memref<64xf32>\n" +
         steps +
         "    scf.yield %next : f32\n"
         "  }\n"
         "  return %r : f32\n"
         "}\n";
}

/// The comparisons with NaN that wait for the carried value.
int64_t carriedChecks(const std::string &steps) {
  ParsedKernel kernel(loopOf(steps));
  EXPECT_TRUE(bool(kernel)) << steps;
  expandExtrema(kernel.module(), llvm::cantFail(TargetInfo::get("x86-64-v3")));
  int64_t checks = 0;
  kernel.module().walk([&](arith::CmpFOp compare) {
    bool isCarried =
        !isa_and_nonnull<memref::LoadOp>(compare.getLhs().getDefiningOp());
    checks += compare.getPredicate() == arith::CmpFPredicate::UNO && isCarried;
  });
  return checks;
}

TEST(ExpandExtremaTest, TheNewElementIsCompared) {
  EXPECT_EQ(carriedChecks("%next = arith.maximumf %most, %a : f32\n"), 0);
  EXPECT_EQ(carriedChecks("%next = arith.minimumf %a, %most : f32\n"), 0);
}

TEST(ExpandExtremaTest, SoAreAllOfATrip) {
  EXPECT_EQ(carriedChecks("%first = arith.maximumf %most, %a : f32\n"
                          "%next = arith.maximumf %first, %b : f32\n"),
            0);
}

TEST(ExpandExtremaTest, OneOfTwoCarriedValuesIsCompared) {
  EXPECT_EQ(carriedChecks("%next = arith.maximumf %most, %most : f32\n"), 1);
}

TEST(ExpandExtremaTest, StayWhereTheyAreInstructions) {
  for (const char *name : {"aarch64", "x86-64-v3"}) {
    ParsedKernel kernel(loopOf("%next = arith.maximumf %most, %a : f32\n"));
    TargetInfo target = llvm::cantFail(TargetInfo::get(name));
    expandExtrema(kernel.module(), target);
    int64_t extrema = 0;
    kernel.module().walk([&](arith::MaximumFOp) { ++extrema; });
    EXPECT_EQ(extrema, target.isa().hasExtrema()) << name;
  }
}

} // namespace
