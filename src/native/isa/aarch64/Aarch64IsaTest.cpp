//===- Aarch64IsaTest.cpp - what targets' features allow ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

#include "gtest/gtest.h"

using namespace anabranch::native;

namespace {

struct Expected {
  const char *target;
  bool mixedDot, bf16; ///< products of bytes of either sign; of bf16
};

class Aarch64IsaTest : public testing::TestWithParam<Expected> {};

TEST_P(Aarch64IsaTest, HasWhatTheFeaturesSay) {
  using Signs = Isa::ByteSigns;
  const Expected &e = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(e.target));
  const Isa &isa = target.isa();
  EXPECT_EQ(isa.vectorBytes(), 16);
  EXPECT_EQ(isa.vectorRegisters(), 32);
  EXPECT_TRUE(isa.hasByteDot(Signs::Signed, 4));
  EXPECT_FALSE(isa.hasByteDot(Signs::Signed, 8));
  EXPECT_EQ(isa.hasByteDot(Signs::Mixed, 4), e.mixedDot);
  EXPECT_EQ(isa.has(Multiply::DotBF16), e.bf16);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::Int8), e.mixedDot);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::MixedInt8), e.mixedDot);
  EXPECT_EQ(isa.hasMatrices(Isa::MatrixProduct::BF16), e.bf16);
  EXPECT_EQ(isa.roundsToBF16(), e.bf16);
  EXPECT_TRUE(isa.convertsF16() && isa.fusesMultiplyAdd());
  EXPECT_FALSE(isa.tiles());
  EXPECT_FALSE(isa.hasGather(32));
}

/// Kernels round numbers and vectors of any length.
TEST_P(Aarch64IsaTest, RoundsSomeLengthsAndNamesTheOthers) {
  TargetInfo target = llvm::cantFail(TargetInfo::get(GetParam().target));
  mlir::MLIRContext context;
  context.loadDialect<mlir::LLVM::LLVMDialect, mlir::vector::VectorDialect,
                      mlir::arith::ArithDialect>();
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  for (int64_t lanes : {0, 1, 2, 3, 4, 8, 16, 32}) {
    mlir::Type type = b.getF32Type();
    if (lanes)
      type = mlir::VectorType::get({lanes}, type);
    mlir::Value floats = b.create<mlir::LLVM::UndefOp>(loc, type);
    bool isRounded = bool(target.isa().roundToBF16(b, loc, floats));
    EXPECT_EQ(isRounded, GetParam().bf16 && (lanes == 4 || lanes == 8))
        << lanes;
  }
}

/// A rate that the instruction set lacks would be believed.
TEST_P(Aarch64IsaTest, AgreesWithTheTableOfMachines) {
  TargetInfo target = llvm::cantFail(TargetInfo::get(GetParam().target));
  for (Multiply multiply : {Multiply::FmaF32, Multiply::FmaF16,
                            Multiply::DotBF16, Multiply::DotInt8})
    EXPECT_EQ(target.isa().has(multiply), target.model.rate(multiply) > 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, Aarch64IsaTest,
                         testing::Values(Expected{"aarch64", false, false},
                                         Expected{"neoverse-n1", false, false},
                                         Expected{"ampere-altra", false, false},
                                         Expected{"neoverse-v1", true, true},
                                         Expected{"neoverse-v2", true, true},
                                         Expected{"grace", true, true},
                                         Expected{"apple-m1", false, false}));

} // namespace
