//===- DTypeTest.cpp - promotion as torch.result_type ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/scalar/DType.h"

#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace anabranch::importer;

namespace {

class Promotions : public testing::Test {
protected:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};

  DType dtype(llvm::StringRef name) { return *parseDType(name, &context); }

  std::string promoted(llvm::StringRef a, llvm::StringRef b) {
    return nameOf(promoteTypes(dtype(a), dtype(b))).str();
  }

  std::string result(std::vector<std::pair<const char *, Rank>> operands) {
    Promotion promotion;
    for (auto [name, rank] : operands)
      promotion.add(dtype(name), rank);
    return nameOf(*promotion.result()).str();
  }
};

TEST_F(Promotions, OfTwoTypes) {
  EXPECT_EQ(promoted("bool", "u8"), "u8");
  EXPECT_EQ(promoted("u8", "i8"), "i16");
  EXPECT_EQ(promoted("i64", "u8"), "i64");
  EXPECT_EQ(promoted("i64", "f16"), "f16");
  EXPECT_EQ(promoted("bf16", "f16"), "f32");
  EXPECT_EQ(promoted("f32", "f64"), "f64");
}

TEST_F(Promotions, ByTheStrengthOfTheOperands) {
  // A Python number does not widen within its category.
  EXPECT_EQ(result({{"i8", Rank::Tensor}, {"i64", Rank::Wrapped}}), "i8");
  EXPECT_EQ(result({{"bf16", Rank::Tensor}, {"f32", Rank::Wrapped}}), "bf16");
  EXPECT_EQ(result({{"i8", Rank::Tensor}, {"f32", Rank::Wrapped}}), "f32");
  EXPECT_EQ(result({{"bool", Rank::Tensor}, {"i64", Rank::Wrapped}}), "i64");
  // A tensor without dimensions does not either.
  EXPECT_EQ(result({{"f32", Rank::Tensor}, {"f64", Rank::ZeroDim}}), "f32");
  EXPECT_EQ(result({{"i32", Rank::ZeroDim}, {"i64", Rank::Wrapped}}), "i32");
  EXPECT_EQ(result({{"i32", Rank::Tensor}, {"f16", Rank::ZeroDim}}), "f16");
}

TEST_F(Promotions, NamesRoundTrip) {
  for (const char *name : {"bool", "u8", "i8", "i16", "i32", "i64", "f16",
                           "bf16", "f32", "f64", "c64", "c128"})
    EXPECT_EQ(nameOf(dtype(name)), name);
  EXPECT_FALSE(parseDType("f31", &context));
  EXPECT_EQ(setOf(dtype("c32")), 0u);
  EXPECT_EQ(setOf(dtype("u32")), 0u);
}

} // namespace
