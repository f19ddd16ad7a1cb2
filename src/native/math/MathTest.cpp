//===- MathTest.cpp - errors of the vector math against f64 ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/KernelLibrary.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace anabranch;
using namespace anabranch::native;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_ = std::numeric_limits<float>::quiet_NaN();

struct Function {
  const char *op;
  double (*reference)(double);
  double limit = 2; ///< units in the last place
};

double rsqrt(double x) { return 1 / std::sqrt(x); }

const Function functions[] = {
    {"exp", std::exp},     {"exp2", std::exp2},      {"expm1", std::expm1},
    {"log", std::log},     {"log2", std::log2},      {"log10", std::log10},
    {"log1p", std::log1p}, {"tanh", std::tanh},      {"erf", std::erf},
    {"sin", std::sin},     {"cos", std::cos},        {"tan", std::tan},
    {"asin", std::asin},   {"acos", std::acos},      {"atan", std::atan},
    {"sinh", std::sinh},   {"cosh", std::cosh},      {"asinh", std::asinh},
    {"acosh", std::acosh}, {"atanh", std::atanh},    {"cbrt", std::cbrt},
    {"rsqrt", rsqrt},      {"round", std::round, 0},
};

/// A kernel NAME: out[i] = body(in0[i], in1[i]) for sizes[0] elements, a
/// multiple of the width.
std::string kernelText(const std::string &name, const std::string &body,
                       const std::string &type, const std::string &vector,
                       int width) {
  std::string text = R"mlir(
  func.func @NAME(%buffers: !llvm.ptr, %sizes: !llvm.ptr, %scratch: !llvm.ptr,
                  %tile: i64) -> i32 {
    %p1 = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %p2 = llvm.getelementptr %buffers[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %in0 = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
    %in1 = llvm.load %p1 : !llvm.ptr -> !llvm.ptr
    %out = llvm.load %p2 : !llvm.ptr -> !llvm.ptr
    %size = llvm.load %sizes : !llvm.ptr -> i64
    %c0 = arith.constant 0 : i64
    %step = arith.constant WIDTH : i64
    scf.for %i = %c0 to %size step %step : i64 {
      %a0 = llvm.getelementptr %in0[%i] : (!llvm.ptr, i64) -> !llvm.ptr, TYPE
      %a1 = llvm.getelementptr %in1[%i] : (!llvm.ptr, i64) -> !llvm.ptr, TYPE
      %a2 = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, TYPE
      %x = llvm.load %a0 {alignment = 4 : i64} : !llvm.ptr -> VECTOR
      %y = llvm.load %a1 {alignment = 4 : i64} : !llvm.ptr -> VECTOR
      BODY
      llvm.store %r, %a2 {alignment = 4 : i64} : VECTOR, !llvm.ptr
    }
    %ok = arith.constant 0 : i32
    return %ok : i32
  }
)mlir";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  replace("BODY", body);
  replace("NAME", name);
  replace("WIDTH", std::to_string(width));
  replace("VECTOR", vector);
  replace("TYPE", type);
  return text;
}

/// Numbers of every exponent and both signs, and special values.
std::vector<float> samples(size_t perExponent) {
  std::vector<float> values = {
      0.0f,  -0.0f, inf,   -inf,     nan_,     1.0f,   -1.0f,   0.5f,
      -0.5f, 2.5f,  -2.5f, 88.7228f, -103.97f, 1e-45f, -1e-45f, 3.4028235e38f};
  std::mt19937 random(7);
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    // Most functions vary between 2^-13 and 2^8.
    size_t count =
        exponent > 113 && exponent < 136 ? perExponent * 20 : perExponent;
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = (random() & 0x807fffff) | exponent << 23;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    }
  }
  while (values.size() % 64)
    values.push_back(1.0f);
  return values;
}

/// The distance from the exact value, in units of its last place.
double ulpError(float value, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(value))
    return std::isnan(exact) && std::isnan(value) ? 0 : inf;
  if (std::isinf(rounded) || std::isinf(value))
    return rounded == value ||
                   (std::isinf(rounded) &&
                    std::fabs(value) == std::numeric_limits<float>::max())
               ? 0
               : inf;
  if (exact == 0 || rounded == 0)
    return value == 0 ? (std::signbit(value) == std::signbit(exact) ? 0 : inf)
                      : std::fabs(value - exact) / 1e-45;
  int exponent = std::max(std::ilogb(rounded), -126);
  return std::fabs(value - exact) / std::ldexp(1.0, exponent - 23);
}

class MathTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    target = llvm::cantFail(native::TargetInfo::get(GetParam()));
  }
  std::string vectorType() const {
    return "vector<" + std::to_string(target.lanes(32)) + "xf32>";
  }
  KernelLibrary compile(const std::string &text) {
    return llvm::cantFail(KernelLibrary::fromText(text, target));
  }
  native::TargetInfo target;
};

/// The attributes are those of makeNormalPower. An error of the factor, which
/// is rounded to a float, grows with the exponent.
TEST_P(MathTest, NormalPowersHaveTheirDigits) {
  std::vector<float> in = {0.0f, -0.0f, 0.5f, -63.0f, 63.0f, nan_}, out;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> some(-63, 63);
  while (in.size() < 4096)
    in.push_back(some(random));
  out.resize(in.size());
  for (bool narrow : {false, true}) {
    std::string op = "%r = math.exp2 %x {anabranch.power_factor = 1.75 : f64";
    op += narrow ? ", anabranch.narrow_power} : VECTOR" : "} : VECTOR";
    KernelLibrary library =
        compile(kernelText("power", op, "f32", vectorType(), target.lanes(32)));
    if (!native::runs(target))
      GTEST_SKIP();
    ASSERT_EQ(library.run("power", {in.data(), in.data(), out.data()},
                          {int64_t(in.size())}),
              0);
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_LE(ulpError(out[i], std::exp2(1.75 * in[i])),
                narrow ? 0x1p23 / 0x1p12 : 2)
          << in[i] << (narrow ? ", narrow" : "");
  }
}

TEST_P(MathTest, UnaryFunctionsAreWithinTwoUlp) {
  std::string text;
  for (const Function &function : functions) {
    std::string op = std::string("%r = math.") + function.op + " %x : ";
    text += kernelText(std::string("vector_") + function.op, op + "VECTOR",
                       "f32", vectorType(), target.lanes(32));
    text += kernelText(std::string("scalar_") + function.op, op + "f32", "f32",
                       "f32", 1);
  }
  KernelLibrary library = compile(text);
  if (!runs(target))
    GTEST_SKIP();
  std::vector<float> in = samples(400), out(in.size());
  for (const Function &function : functions)
    for (const char *form : {"vector_", "scalar_"}) {
      ASSERT_EQ(library.run(std::string(form) + function.op,
                            {in.data(), in.data(), out.data()},
                            {int64_t(in.size())}),
                0);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < in.size(); ++i) {
        double error = ulpError(out[i], function.reference(in[i]));
        if (!(error <= worst))
          worst = error, where = in[i];
      }
      std::printf("%s%-6s %.3f ulp at %a\n", form, function.op, worst, where);
      EXPECT_LE(worst, function.limit)
          << form << function.op << " at " << where;
    }
}

TEST_P(MathTest, BinaryFunctionsAreWithinTwoUlp) {
  struct Binary {
    const char *op;
    double (*reference)(double, double);
  };
  const Binary binaries[] = {{"powf", std::pow}, {"atan2", std::atan2}};
  std::string text;
  for (const Binary &function : binaries)
    text +=
        kernelText(function.op,
                   std::string("%r = math.") + function.op + " %x, %y : VECTOR",
                   "f32", vectorType(), target.lanes(32));
  KernelLibrary library = compile(text);
  if (!runs(target))
    GTEST_SKIP();

  std::vector<float> x, y;
  const float special[] = {0.0f,   -0.0f, inf,         -inf,  nan_, 1.0f,
                           -1.0f,  2.0f,  3.0f,        -3.0f, 0.5f, -0.5f,
                           1e-40f, 3e38f, 16777217.0f, -2.0f};
  for (float a : special)
    for (float b : special)
      x.push_back(a), y.push_back(b);
  std::vector<float> more = samples(100), shuffled = more;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  x.insert(x.end(), more.begin(), more.end());
  y.insert(y.end(), shuffled.begin(), shuffled.end());
  std::mt19937 random(5);
  std::uniform_real_distribution<float> base(0, 20), exponent(-30, 30);
  for (int i = 0; i < 64 * 2000; ++i) {
    x.push_back(base(random));
    y.push_back(i % 3 ? exponent(random) : std::rint(exponent(random)));
    if (i % 5 == 0)
      x.back() = -x.back();
  }
  std::vector<float> out(x.size());
  for (const Binary &function : binaries) {
    ASSERT_EQ(library.run(function.op, {x.data(), y.data(), out.data()},
                          {int64_t(x.size())}),
              0);
    double worst = 0;
    float a = 0, b = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double error = ulpError(out[i], function.reference(x[i], y[i]));
      if (!(error <= worst))
        worst = error, a = x[i], b = y[i];
    }
    std::printf("%-6s %.3f ulp at %a, %a\n", function.op, worst, a, b);
    EXPECT_LE(worst, 2) << function.op << " at " << a << ", " << b;
  }
}

TEST_P(MathTest, DoublesAreLibms) {
  KernelLibrary library = compile(
      kernelText("vector", "%r = math.tanh %x : VECTOR", "f64", "vector<8xf64>",
                 8) +
      kernelText("scalar", "%r = math.powf %x, %y : f64", "f64", "f64", 1));
  if (!runs(target))
    GTEST_SKIP();
  std::vector<double> x(16), y(16, 1.5), out(16);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 0.3 * i;
  library.run("vector", {x.data(), y.data(), out.data()}, {16});
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(out[i], std::tanh(x[i]));
  library.run("scalar", {x.data(), y.data(), out.data()}, {16});
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(out[i], std::pow(x[i], 1.5));
}

/// The nearest bf16; of two, the even one.
float nearestBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class BF16Test : public MathTest {
protected:
  /// What a kernel with this body, whose text has BF16 for a vector of bf16,
  /// makes of the samples.
  void run(std::string body, bool flushes = false) {
    std::string narrow = vectorType();
    narrow.replace(narrow.find("f32"), 3, "bf16");
    for (size_t at; (at = body.find("BF16")) != std::string::npos;)
      body.replace(at, 4, narrow);
    std::string text =
        kernelText("kernel", body, "f32", vectorType(), target.lanes(32));
    if (flushes)
      text.replace(text.find("-> i32 {"), 8,
                   "-> i32 attributes {anabranch.flushes_bf16} {");
    KernelLibrary library = compile(text);
    if (!runs(target))
      GTEST_SKIP();
    in = samples(50);
    out.resize(in.size());
    library.run("kernel", {in.data(), in.data(), out.data()},
                {int64_t(in.size())});
  }
  void expect(size_t i, float value) {
    EXPECT_TRUE(out[i] == value || (std::isnan(out[i]) && std::isnan(value)))
        << in[i] << " gives " << out[i] << ", not " << value;
  }
  std::vector<float> in, out;
};

constexpr const char *thereAndBack = R"(
      %h = arith.truncf %x : VECTOR to BF16
      %r = arith.extf %h : BF16 to VECTOR)";

TEST_P(BF16Test, RoundsToNearestEven) {
  run(thereAndBack);
  for (size_t i = 0; i < out.size(); ++i)
    expect(i, std::isnan(in[i]) ? nan_ : nearestBF16(in[i]));
}

TEST_P(BF16Test, FlushesNothingButDenormals) {
  run(thereAndBack, /*flushes=*/true);
  for (size_t i = 0; i < out.size(); ++i)
    if (std::isnan(in[i]) || std::fabs(in[i]) >= 0x1p-126f)
      expect(i, std::isnan(in[i]) ? nan_ : nearestBF16(in[i]));
    else
      EXPECT_TRUE(out[i] == 0 || out[i] == nearestBF16(in[i])) << in[i];
}

/// 1.001 is no number of bf16, so its maximum is rounded after the operand.
TEST_P(BF16Test, MaximaOfRoundedNumbersAreRounded) {
  for (float limit : {0.0f, -2.5f, 1.001f}) {
    run("%limit = arith.constant dense<" + std::to_string(limit) +
        "> : VECTOR\n%six = arith.constant dense<6.0> : VECTOR" + R"(
      %h = arith.truncf %x : VECTOR to BF16
      %w = arith.extf %h : BF16 to VECTOR
      %low = arith.maximumf %w, %limit : VECTOR
      %high = arith.minimumf %low, %six : VECTOR
      %again = arith.truncf %high : VECTOR to BF16
      %r = arith.extf %again : BF16 to VECTOR)");
    for (size_t i = 0; i < out.size(); ++i)
      expect(i, std::isnan(in[i])
                    ? nan_
                    : nearestBF16(std::fmin(
                          std::fmax(nearestBF16(in[i]), limit), 6.0f)));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BF16Test,
                         testing::Values("avx2", "avx512", "host", "portable",
                                         "aarch64", "neoverse-v1"));

INSTANTIATE_TEST_SUITE_P(Targets, MathTest,
                         testing::Values("avx2", "avx512", "host", "portable",
                                         "aarch64", "neoverse-v1"));

} // namespace
