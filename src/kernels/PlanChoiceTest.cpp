//===- PlanChoiceTest.cpp - costs of plans against what measures best -----===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/PlanChoice.h"
#include "support/kernels/ParsedCase.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

const char *const targets[] = {
    "portable",  "x86-64-v3",      "haswell",   "znver3",
    "znver4",    "znver5",         "x86-64-v4", "icelake-server",
    "alderlake", "sapphirerapids", "aarch64",   "neoverse-v1"};

struct Size {
  int64_t columns, depth;
};
const Size sizes[] = {{3, 8},      {17, 64},    {64, 64},
                      {100, 1000}, {768, 3072}, {4096, 4096}};

std::string nameOf(const GemmCase &c) {
  return std::string(c.type) + " " + c.right + " " + std::to_string(c.m) +
         " x " + std::to_string(c.n) + " x " + std::to_string(c.k) +
         ", panels of " + std::to_string(c.width) +
         (c.dynamic ? ", dynamic" : "");
}

/// Two rows of pairs that tile registers would first copy to a few panels. A
/// copy of them takes as long as the whole product in place.
bool isReadInPlaceForLess(const GemmCase &c, const native::TargetInfo &target) {
  return target.isa().has(native::Multiply::TileBF16) && c.m == 2 &&
         c.n == 100 && std::string(c.type) + c.right == "bf16kn";
}

void expectFirstOnAllTargets(const GemmCase &c) {
  SCOPED_TRACE(nameOf(c));
  ParsedCase parsed(c);
  for (const char *name : targets) {
    native::TargetInfo target = targetOf(name);
    if (isReadInPlaceForLess(c, target))
      EXPECT_EQ(cheapestPlan(parsed.parsed.function(), target), "row_sums");
    else
      expectFirstIsCheapest(parsed.parsed.function(), target);
  }
}

TEST(PlanChoice, OfProducts) {
  for (const char *type : {"f32", "bf16", "f16", "f64", "i8"})
    for (const char *right : {"nk", "kn"})
      for (int64_t rows : {1, 2, 3, 4, 8, 9, 33, 512})
        for (const Size &size : sizes)
          expectFirstOnAllTargets(
              {"", 1, rows, size.columns, size.depth, "mk", right, type});
}

TEST(PlanChoice, OfProductsOfPanels) {
  for (const char *type : {"f32", "bf16", "i8"})
    for (int64_t rows : {1, 4, 16, 33, 512})
      for (const Size &size : sizes) {
        if (size.columns < 16)
          continue; // no packer makes wide panels of so few columns
        GemmCase c{"",   1,    rows, size.columns, size.depth,
                   "mk", "nk", type, false,        64};
        c.kPack = std::string(type) == "i8" ? 4 : type[0] == 'b' ? 2 : 1;
        expectFirstOnAllTargets(c);
      }
}

TEST(PlanChoice, OfBatchesAndUnknownSizes) {
  for (const char *type : {"f32", "bf16"})
    for (const char *right : {"bnk", "bkn"})
      for (bool isDynamic : {false, true})
        for (int64_t rows : {1, 12, 128})
          expectFirstOnAllTargets(
              {"", 12, rows, 128, 64, "bmk", right, type, isDynamic});
}

} // namespace
