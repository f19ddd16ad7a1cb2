//===- CompileTest.cpp - loops to a loaded library ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/Compile.h"
#include "native/object/Link.h"

#include "support/native/KernelLibrary.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace anabranch;
using namespace anabranch::native;

namespace {

/// The plan function of a kernel: one tile, no scratch memory.
std::string planOf(const std::string &kernel) {
  return "func.func @" + kernel +
         R"mlir(_plan(%sizes: !llvm.ptr, %plan: !llvm.ptr) {
    %one = arith.constant 1 : i64
    %zero = arith.constant 0 : i64
    %scratch = llvm.getelementptr %plan[1] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %one, %plan : i64, !llvm.ptr
    llvm.store %zero, %scratch : i64, !llvm.ptr
    return
  }
)mlir";
}

/// Adds 1 to `sizes[0]` floats, sixteen at a time and then singly.
constexpr const char *addOne = R"mlir(
  func.func @add_one(%buffers: !llvm.ptr, %sizes: !llvm.ptr,
                     %scratch: !llvm.ptr, %tile: i64) -> i32 {
    %in = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
    %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %out = llvm.load %second : !llvm.ptr -> !llvm.ptr
    %size = llvm.load %sizes : !llvm.ptr -> i64
    %n = arith.index_cast %size : i64 to index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %rest = arith.remui %n, %c16 : index
    %main = arith.subi %n, %rest : index
    %ones = arith.constant dense<1.0> : vector<16xf32>
    scf.for %i = %c0 to %main step %c16 {
      %at = arith.index_cast %i : index to i64
      %from = llvm.getelementptr %in[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %to = llvm.getelementptr %out[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %x = llvm.load %from {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %y = arith.addf %x, %ones : vector<16xf32>
      llvm.store %y, %to {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    }
    scf.for %i = %main to %n step %c1 {
      %at = arith.index_cast %i : index to i64
      %from = llvm.getelementptr %in[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %to = llvm.getelementptr %out[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %x = llvm.load %from : !llvm.ptr -> f32
      %one = arith.constant 1.0 : f32
      %y = arith.addf %x, %one : f32
      llvm.store %y, %to : f32, !llvm.ptr
    }
    %ok = arith.constant 0 : i32
    return %ok : i32
  }
)mlir";

class CompileTest : public testing::TestWithParam<const char *> {};

TEST_P(CompileTest, CompilesLinksAndRuns) {
  auto target = native::TargetInfo::get(GetParam());
  ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
  auto library = KernelLibrary::fromText(addOne + planOf("add_one"), *target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  ASSERT_EQ(library->objects().size(), 1u);
  if (!runs(*target))
    GTEST_SKIP() << "this machine can't run " << GetParam();

  std::vector<float> in(37), out(37);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = float(i);
  ASSERT_EQ(library->run("add_one", {in.data(), out.data()}, {37}), 0);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(out[i], float(i) + 1);
}

INSTANTIATE_TEST_SUITE_P(Targets, CompileTest,
                         testing::Values("host", "avx2", "avx512", "portable",
                                         "aarch64", "neoverse-v1"));

TEST(Compile, LibmIsFoundWhenTheLibraryIsLoaded) {
  auto target = llvm::cantFail(native::TargetInfo::get("host"));
  auto library = KernelLibrary::fromText(R"mlir(
    llvm.func @lgamma(f64) -> f64
    func.func @gamma(%buffers: !llvm.ptr, %sizes: !llvm.ptr,
                     %scratch: !llvm.ptr, %tile: i64) -> i32 {
      %p = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
      %x = llvm.load %p : !llvm.ptr -> f64
      %y = llvm.call @lgamma(%x) : (f64) -> f64
      llvm.store %y, %p : f64, !llvm.ptr
      %ok = arith.constant 0 : i32
      return %ok : i32
    }
  )mlir" + planOf("gamma"),
                                         target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  double x = 5.5;
  ASSERT_EQ(library->run("gamma", {&x}, {}), 0);
  EXPECT_DOUBLE_EQ(x, std::lgamma(5.5));
}

TEST(Compile, ImpossibleCodeIsADiagnostic) {
  auto target = llvm::cantFail(native::TargetInfo::get("avx2"));
  auto library = KernelLibrary::fromText(R"mlir(
    func.func @bad(%buffers: !llvm.ptr, %sizes: !llvm.ptr,
                   %scratch: !llvm.ptr, %tile: i64) -> i32 {
      %p = llvm.inline_asm "nonsense $0", "=r" : () -> i64
      %ok = arith.trunci %p : i64 to i32
      return %ok : i32
    }
  )mlir",
                                         target);
  ASSERT_FALSE(bool(library));
  EXPECT_NE(llvm::toString(library.takeError()).find("bad"), std::string::npos);
}

TEST(Compile, UnwritablePathIsAnError) {
  llvm::Error error = native::linkKernels(
      {}, llvm::cantFail(native::TargetInfo::get("host")).architecture(),
      "/no/such/folder/kernels.so");
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
}

} // namespace
