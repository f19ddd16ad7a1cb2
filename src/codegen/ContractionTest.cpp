//===- ContractionTest.cpp - matrix products against plain loops ----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/ContractionKernel.h"
#include "codegen/KernelLibrary.h"
#include "ir/Anabranch.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace anabranch::codegen;

namespace {

/// A product [batch, m, n] whose operands are stored in the order of the
/// letters, with the epilogue relu(x + bias[n]).
struct Case {
  const char *name;
  int64_t batch, m, n, k;
  const char *left, *right; ///< "bmk", "kn", ...
  const char *type = "f32";
  bool dynamic = false; ///< all sizes symbolic
};

int64_t sizeOf(const Case &c, char letter) {
  switch (letter) {
  case 'b':
    return c.batch;
  case 'm':
    return c.m;
  case 'n':
    return c.n;
  default:
    return c.k;
  }
}

std::string resultLetters(const Case &c) {
  return c.left[0] == 'b' ? "bmn" : "mn";
}

std::string tensorType(const Case &c, const std::string &letters,
                       const std::string &type) {
  std::string text = "tensor<";
  for (char letter : letters)
    text += (c.dynamic ? "?" : std::to_string(sizeOf(c, letter))) + "x";
  return text + type + ">";
}

std::string mapOf(const std::string &letters) {
  std::string text = "affine_map<(LOOPS) -> (";
  for (size_t i = 0; i < letters.size(); ++i)
    text += std::string(i ? ", " : "") + letters[i];
  return text + ")>";
}

void replaceAll(std::string &text, const std::string &from,
                const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
}

std::string kernelText(const Case &c) {
  std::string type = c.type;
  std::string sum = type == "f64" ? "f64" : "f32";
  bool widens = type != sum;
  std::string text = R"mlir(
func.func @product(%left: LEFT, %right: RIGHT, %bias: BIAS SIZES) -> RESULT
    attributes {anabranch.kernel} {
  %zero = arith.constant 0.0 : SUM
  %empty = tensor.empty(DIMS) : ACC
  %init = linalg.fill ins(%zero : SUM) outs(%empty : ACC) -> ACC
  %product = linalg.generic {
      indexing_maps = [LMAP, RMAP, OMAP],
      iterator_types = [PARALLEL, "reduction"]}
      ins(%left, %right : LEFT, RIGHT) outs(%init : ACC) {
  ^bb0(%x: TYPE, %y: TYPE, %s: SUM):
    WIDEN
    %p = arith.mulf %a, %c : SUM
    %t = arith.addf %s, %p : SUM
    linalg.yield %t : SUM
  } -> ACC
  %out = tensor.empty(DIMS) : RESULT
  %result = linalg.generic {
      indexing_maps = [affine_map<(POINT) -> (POINT)>,
                       affine_map<(POINT) -> (n)>,
                       affine_map<(POINT) -> (POINT)>],
      iterator_types = [PARALLEL]}
      ins(%product, %bias : ACC, BIAS) outs(%out : RESULT) {
  ^bb0(%x: SUM, %y: SUM, %o: TYPE):
    %u = arith.addf %x, %y : SUM
    %v = arith.maximumf %u, %zero : SUM
    NARROW
  } -> RESULT
  return %result : RESULT
})mlir";
  replaceAll(text, "WIDEN",
             widens ? "%a = arith.extf %x : TYPE to SUM\n"
                      "%c = arith.extf %y : TYPE to SUM"
                    : "");
  replaceAll(text, "NARROW",
             widens ? "%w = arith.truncf %v : SUM to TYPE\n"
                      "linalg.yield %w : TYPE"
                    : "linalg.yield %v : TYPE");
  if (!widens) {
    replaceAll(text, "%a, %c", "%x, %y");
  }
  bool batched = resultLetters(c) == "bmn";
  replaceAll(text, "LMAP", mapOf(c.left));
  replaceAll(text, "RMAP", mapOf(c.right));
  replaceAll(text, "OMAP", mapOf(resultLetters(c)));
  replaceAll(text, "LOOPS", batched ? "b, m, n, k" : "m, n, k");
  replaceAll(text, "POINT", batched ? "b, m, n" : "m, n");
  replaceAll(text, "PARALLEL",
             batched ? R"("parallel", "parallel", "parallel")"
                     : R"("parallel", "parallel")");
  replaceAll(text, "LEFT", tensorType(c, c.left, type));
  replaceAll(text, "RIGHT", tensorType(c, c.right, type));
  replaceAll(text, "BIAS", tensorType(c, "n", sum));
  replaceAll(text, "RESULT", tensorType(c, resultLetters(c), type));
  replaceAll(text, "ACC", tensorType(c, resultLetters(c), sum));
  replaceAll(text, "SIZES",
             c.dynamic ? ", %db: index, %dm: index, %dn: index" : "");
  replaceAll(text, "DIMS", c.dynamic ? "%db, %dm, %dn" : "");
  replaceAll(text, "TYPE", type);
  replaceAll(text, "SUM", sum);
  return text;
}

/// Numbers of a dtype as bytes, and what they are exactly.
struct Numbers {
  std::vector<char> bytes;
  std::vector<double> values;

  Numbers(size_t count, const std::string &type, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> eighths(-16, 16);
    for (size_t i = 0; i < count; ++i) {
      double value = eighths(random) / 8.0; // exact in every dtype
      values.push_back(value);
      append(type, value);
    }
  }
  void append(const std::string &type, double value) {
    char buffer[8];
    size_t size = 4;
    float single = static_cast<float>(value);
    if (type == "f64") {
      std::memcpy(buffer, &value, size = 8);
    } else if (type == "f32") {
      std::memcpy(buffer, &single, 4);
    } else if (type == "bf16") {
      std::memcpy(buffer, reinterpret_cast<char *>(&single) + 2, size = 2);
    } else {
      _Float16 half = static_cast<_Float16>(value);
      std::memcpy(buffer, &half, size = 2);
    }
    bytes.insert(bytes.end(), buffer, buffer + size);
  }
};

double read(const char *bytes, size_t i, const std::string &type) {
  if (type == "f64")
    return reinterpret_cast<const double *>(bytes)[i];
  if (type == "f32")
    return reinterpret_cast<const float *>(bytes)[i];
  if (type == "f16")
    return static_cast<double>(reinterpret_cast<const _Float16 *>(bytes)[i]);
  uint32_t bits = uint32_t(reinterpret_cast<const uint16_t *>(bytes)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

size_t offset(const Case &c, const std::string &letters, int64_t b, int64_t m,
              int64_t n, int64_t k) {
  size_t at = 0;
  for (char letter : letters) {
    int64_t position = letter == 'b'   ? b
                       : letter == 'm' ? m
                       : letter == 'n' ? n
                                       : k;
    at = at * sizeOf(c, letter) + position;
  }
  return at;
}

size_t count(const Case &c, const std::string &letters) {
  size_t product = 1;
  for (char letter : letters)
    product *= sizeOf(c, letter);
  return product;
}

const Case cases[] = {
    {"whole", 1, 24, 128, 64, "mk", "nk"},
    {"tails", 1, 37, 100, 70, "mk", "nk"},
    {"plain", 1, 37, 100, 70, "mk", "kn"},
    {"deep", 1, 20, 70, 1200, "mk", "nk"},
    {"left_transposed", 1, 19, 50, 40, "km", "kn"},
    {"one_row", 1, 1, 192, 96, "mk", "kn"},
    {"one_row_weight", 1, 1, 100, 96, "mk", "nk"},
    {"in_place", 1, 8, 192, 600, "mk", "kn"},
    {"batched", 3, 17, 33, 20, "bmk", "bnk"},
    {"batched_plain", 3, 17, 33, 20, "bmk", "bkn"},
    {"tiny", 1, 1, 1, 1, "mk", "nk"},
    {"many_rows", 2, 700, 20, 9, "bmk", "bkn"},
    {"bf16", 1, 21, 70, 50, "mk", "nk", "bf16"},
    {"f16", 1, 21, 70, 50, "mk", "kn", "f16"},
    {"f64", 1, 21, 70, 50, "mk", "nk", "f64"},
    {"dynamic", 2, 37, 100, 70, "bmk", "bnk", "f32", true},
    {"dynamic_plain", 2, 5, 30, 900, "bmk", "bkn", "f32", true},
    {"dynamic_empty_depth", 1, 3, 5, 0, "bmk", "bnk", "f32", true},
    {"dynamic_empty_rows", 1, 0, 5, 4, "bmk", "bnk", "f32", true},
};

class ContractionTest
    : public testing::TestWithParam<std::tuple<const char *, Case>> {};

TEST_P(ContractionTest, EqualsPlainLoops) {
  auto [targetName, c] = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(targetName));
  std::string text = kernelText(c);

  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  auto refusal = contractionKernel.refusal(kernel, target);
  EXPECT_FALSE(refusal) << *refusal;

  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError()) << text;
  std::printf("%s %s: %.0f ms\n", targetName, c.name,
              library->objects()[0].totalMs());
  if (!target.runsHere())
    GTEST_SKIP();
  std::string type = c.type, sum = type == "f64" ? "f64" : "f32";
  Numbers left(count(c, c.left), type, 1), right(count(c, c.right), type, 2);
  Numbers bias(c.n, sum, 3), result(count(c, resultLetters(c)), type, 4);
  std::vector<int64_t> sizes;
  if (c.dynamic) {
    for (const std::string &letters :
         {std::string(c.left), std::string(c.right), std::string("n"),
          resultLetters(c)})
      for (char letter : letters)
        sizes.push_back(sizeOf(c, letter));
    sizes.insert(sizes.end(), {c.batch, c.m, c.n});
  }
  ASSERT_EQ(library->run("product",
                         {left.bytes.data(), right.bytes.data(),
                          bias.bytes.data(), result.bytes.data()},
                         sizes),
            0);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        double expected = 0;
        for (int64_t k = 0; k < c.k; ++k)
          expected += left.values[offset(c, c.left, b, m, n, k)] *
                      right.values[offset(c, c.right, b, m, n, k)];
        expected = std::max(0.0, expected + bias.values[n]);
        double actual = read(result.bytes.data(),
                             offset(c, resultLetters(c), b, m, n, 0), type);
        double tolerance = type == "bf16" ? 0.01 : type == "f16" ? 1e-3 : 0;
        ASSERT_NEAR(actual, expected, tolerance * std::fabs(expected))
            << c.name << " at " << b << ", " << m << ", " << n;
      }
}

std::string
caseName(const testing::TestParamInfo<std::tuple<const char *, Case>> &info) {
  return std::string(std::get<0>(info.param)) + "_" +
         std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Cases, ContractionTest,
                         testing::Combine(testing::Values("avx2", "host"),
                                          testing::ValuesIn(cases)),
                         caseName);

} // namespace
