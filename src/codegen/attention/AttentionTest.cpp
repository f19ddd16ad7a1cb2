//===- AttentionTest.cpp - attention against plain loops ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionKernel.h"
#include "support/codegen/AmxEmulation.h"
#include "support/codegen/CompiledCase.h"
#include "support/codegen/GuardedMemory.h"

#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <random>

using namespace anabranch::codegen;

namespace {

/// A window is a boolean mask that shows few neighbouring keys. Most of the
/// others are NaN, so that a kernel must not read them.
enum class Mask { None, Additive, Bool, Window };

/// Query [2, heads, length, head], mask [2, 1, length, keys]. The result is
/// stored as [2, length, heads, valueHead].
struct Case {
  const char *name;
  int64_t heads, keyHeads, length, keys, head, valueHead;
  Mask mask = Mask::None;
  bool causal = false;
  bool dynamic = false;   ///< length and keys symbolic
  int64_t keyBatches = 2; ///< one: the same keys for both batches
  bool bf16 = false;      ///< query, key, value and result
};

constexpr int64_t batches = 2;
/// The keys that the first query of a window sees, and those that are NaN.
constexpr int64_t windowBegin = 300, windowEnd = 340;
bool isOutside(int64_t key) { return key < 128 || key >= 448; }

constexpr double scale = 0.25;

std::string kernelText(const Case &c) {
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string length = c.dynamic ? "?" : number(c.length);
  std::string keys = c.dynamic ? "?" : number(c.keys);
  auto shape = [&](int64_t heads, std::string rows, int64_t columns,
                   int64_t count = batches) {
    return "tensor<" + number(count) + "x" + number(heads) + "x" + rows + "x" +
           number(columns) + (c.bf16 ? "xbf16>" : "xf32>");
  };
  std::string query = shape(c.heads, length, c.head);
  std::string key = shape(c.keyHeads, keys, c.head, c.keyBatches);
  std::string value = shape(c.keyHeads, keys, c.valueHead, c.keyBatches);
  std::string result = shape(c.heads, length, c.valueHead);
  std::string resultType = "tensor<2x" + length + "x" + number(c.heads) + "x" +
                           number(c.valueHead) + (c.bf16 ? "xbf16>" : "xf32>");
  std::string mask = "tensor<2x1x" + length + "x" + keys + "x" +
                     (c.mask == Mask::Additive ? "f32>" : "i1>");
  std::string text =
      "func.func @attend(%q: " + query + ", %k: " + key + ", %v: " + value;
  if (c.mask != Mask::None)
    text += ", %m: " + mask;
  if (c.dynamic)
    text += ", %l: index";
  text += ") -> " + resultType + " attributes {anabranch.kernel} {\n";
  text += "%r = anabranch.attention %q, %k, %v";
  if (c.mask != Mask::None)
    text += " mask %m";
  if (c.dynamic)
    text += " dims(%l)";
  text += " {scale = 0.25 : f64";
  text += c.causal ? ", causal" : "";
  text += c.heads != c.keyHeads ? ", grouped" : "";
  text += "} : (" + query + ", " + key + ", " + value;
  if (c.mask != Mask::None)
    text += ", " + mask;
  if (c.dynamic)
    text += ", index";
  text += ") -> " + result + "\n%e = tensor.empty(" + (c.dynamic ? "%l" : "") +
          ") : " + resultType;
  text += R"mlir(
  %t = linalg.generic {
      indexing_maps = [affine_map<(b, l, h, e) -> (b, h, l, e)>,
                       affine_map<(b, l, h, e) -> (b, l, h, e)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r : )mlir" +
          result + ") outs(%e : " + resultType + R"mlir() {
)mlir";
  text += c.bf16 ? R"mlir(  ^bb0(%n: bf16, %o: bf16):
    %x = arith.extf %n : bf16 to f32
    %two = arith.constant 2.0 : f32
    %y = arith.mulf %x, %two : f32
    %z = arith.truncf %y : f32 to bf16
    linalg.yield %z : bf16
  } -> )mlir"
                 : R"mlir(  ^bb0(%x: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %y = arith.mulf %x, %two : f32
    linalg.yield %y : f32
  } -> )mlir";
  text += resultType + "\nreturn %t : " + resultType + "\n}\n";
  return text;
}

/// Converts to bf16 by rounding towards zero, which is enough for test data.
uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t(bits >> 16);
}

float widen(uint16_t half) {
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// An operand of a kernel: the numbers as f32, or as bf16.
class Operand {
public:
  Operand(const std::vector<float> &values, bool isNarrow)
      : isNarrow(isNarrow),
        memory(values.size() * (isNarrow ? sizeof(uint16_t) : sizeof(float)),
               GuardedMemory::Side::End) {
    for (size_t i = 0; i < values.size(); ++i)
      if (isNarrow)
        halves()[i] = narrow(values[i]);
      else
        floats()[i] = values[i];
  }

  void *data() const { return memory.data(); }
  float at(int64_t i) const {
    return isNarrow ? widen(halves()[i]) : floats()[i];
  }

private:
  bool isNarrow;
  GuardedMemory memory;

  uint16_t *halves() const { return reinterpret_cast<uint16_t *>(data()); }
  float *floats() const { return reinterpret_cast<float *>(data()); }
};

struct Data {
  std::vector<float> query, key, value, additive;
  std::vector<char> seen;

  static void hide(const Case &c, std::vector<float> &values, int64_t size) {
    for (size_t i = 0; i < values.size(); ++i)
      if (isOutside(int64_t(i) / size % c.keys))
        values[i] = std::numeric_limits<float>::quiet_NaN();
  }

  explicit Data(const Case &c) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    auto fill = [&](std::vector<float> &values, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        values.push_back(normal(random));
    };
    fill(query, batches * c.heads * c.length * c.head);
    fill(key, batches * c.keyHeads * c.keys * c.head);
    fill(value, batches * c.keyHeads * c.keys * c.valueHead);
    if (c.bf16)
      for (std::vector<float> *values : {&query, &key, &value})
        for (float &x : *values)
          x = widen(narrow(x));
    fill(additive, batches * c.length * c.keys);
    for (int64_t i = 0; i < batches * c.length * c.keys; ++i) {
      seen.push_back(random() % 3 != 0 && (i / c.keys) % 7 != 3);
      // Weights of -95 below the maximum are denormal numbers.
      if (uint32_t kind = random() % 8; kind < 3)
        additive[i] = kind ? -std::numeric_limits<float>::infinity() : -95;
    }
    if (c.mask == Mask::Window) {
      for (int64_t i = 0; i < batches * c.length * c.keys; ++i) {
        int64_t key = i % c.keys - i / c.keys % c.length;
        seen[i] = key >= windowBegin && key < windowEnd;
      }
      hide(c, key, c.head);
      hide(c, value, c.valueHead);
    }
    // One row sees no key.
    for (int64_t i = 0; i < c.keys; ++i)
      additive[i] = -std::numeric_limits<float>::infinity();
  }
};

std::vector<double> weights(const Case &c, const Data &d, int64_t b, int64_t h,
                            int64_t l) {
  int64_t kh = h / (c.heads / c.keyHeads);
  const float *q = &d.query[((b * c.heads + h) * c.length + l) * c.head];
  std::vector<double> scores(c.keys);
  double highest = -std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < c.keys; ++s) {
    const float *k =
        &d.key[((b % c.keyBatches * c.keyHeads + kh) * c.keys + s) * c.head];
    double score = 0;
    for (int64_t e = 0; e < c.head; ++e)
      score += double(q[e]) * k[e];
    score *= scale;
    int64_t at = (b * c.length + l) * c.keys + s;
    if (c.mask == Mask::Additive)
      score += d.additive[at];
    bool selects = c.mask == Mask::Bool || c.mask == Mask::Window;
    if ((selects && !d.seen[at]) || (c.causal && s > l))
      score = -std::numeric_limits<double>::infinity();
    scores[s] = score;
    highest = std::max(highest, score);
  }
  double sum = 0;
  for (double &score : scores)
    sum += score = std::isinf(highest) ? 0 : std::exp(score - highest);
  for (double &score : scores)
    score = sum == 0 && c.mask != Mask::Additive ? 0 : score / sum;
  return scores;
}

const Case cases[] = {
    {"whole", 2, 2, 64, 64, 32, 32},
    {"tails", 2, 2, 37, 70, 20, 24},
    {"wide", 1, 1, 19, 150, 64, 128},
    {"vectors_behind_the_head", 1, 1, 37, 70, 16, 80},
    {"additive", 2, 2, 37, 70, 16, 16, Mask::Additive},
    {"bool", 2, 2, 37, 130, 16, 16, Mask::Bool},
    {"causal", 2, 2, 150, 150, 32, 32, Mask::None, true},
    {"grouped", 4, 2, 20, 33, 32, 32},
    {"one_query", 2, 2, 1, 200, 64, 64},
    {"one_query_tails", 4, 2, 1, 75, 20, 24, Mask::Additive},
    {"few_queries", 2, 2, 4, 130, 40, 72, Mask::Bool},
    {"few_causal", 2, 1, 3, 3, 16, 16, Mask::None, true},
    {"long_head", 1, 1, 2, 70, 384, 16},
    {"several_blocks", 1, 1, 1, 1100, 64, 64, Mask::Bool},
    {"eight_queries", 2, 2, 8, 515, 80, 96, Mask::Additive},
    {"shared_one", 16, 4, 1, 530, 64, 64, Mask::Bool},
    {"shared_few", 8, 4, 3, 75, 128, 128},
    {"shared_causal", 12, 4, 2, 48, 20, 24, Mask::None, true},
    {"shared_by_many", 32, 1, 1, 100, 16, 16, Mask::Additive},
    {"few_tiles", 6, 2, 1, 100, 16, 16, Mask::Additive},
    {"dynamic", 2, 2, 70, 90, 32, 32, Mask::Additive, false, true},
    {"dynamic_causal", 4, 1, 70, 70, 32, 32, Mask::None, true, true},
    {"shared_keys", 2, 2, 9, 33, 16, 16, Mask::None, false, false, 1},
    {"window_one_query", 4, 2, 1, 700, 64, 64, Mask::Window},
    {"window_few", 2, 2, 7, 600, 40, 72, Mask::Window},
    {"window", 2, 2, 40, 700, 32, 32, Mask::Window},
    {"window_dynamic", 2, 1, 40, 601, 32, 32, Mask::Window, false, true},
    {"no_keys", 1, 1, 3, 0, 16, 16, Mask::None, false, true},
};

class AttentionTest : public testing::TestWithParam<TargetAndCase<Case>> {};

TEST_P(AttentionTest, EqualsPlainLoops) {
  auto [targetName, c] = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(targetName));
  auto library = compileCase(attentionKernel, kernelText(c), target);
  ASSERT_TRUE(library);
  auto emulation = AmxEmulation::of(target);
  if (!target.runsHere() && !emulation)
    GTEST_SKIP();
  Data d(c);
  std::vector<float> results(batches * c.length * c.heads * c.valueHead, 7);
  Operand query(d.query, c.bf16), key(d.key, c.bf16), value(d.value, c.bf16),
      result(results, c.bf16);
  std::vector<void *> buffers = {query.data(), key.data(), value.data()};
  std::vector<int64_t> sizes;
  if (c.dynamic)
    sizes = {c.length, c.keys, c.keys};
  if (c.mask == Mask::Additive)
    buffers.push_back(d.additive.data());
  if (c.mask == Mask::Bool || c.mask == Mask::Window)
    buffers.push_back(d.seen.data());
  if (c.dynamic && c.mask != Mask::None)
    sizes.insert(sizes.end(), {c.length, c.keys});
  if (c.dynamic)
    sizes.insert(sizes.end(), {c.length, c.length});
  buffers.push_back(result.data());
  _mm_setcsr(_mm_getcsr() & ~_MM_EXCEPT_MASK);
  ASSERT_EQ(library->run("attend", buffers, sizes), 0);
  // Arithmetic on what is in memory by chance takes long if it is denormal.
  EXPECT_FALSE(_mm_getcsr() & _MM_EXCEPT_DENORM);
  if (emulation) {
    bool isStreamed = c.length <= 8 && c.head <= 256 && !c.dynamic;
    EXPECT_EQ(AmxEmulation::products() > 0, !isStreamed && c.keys > 0);
    EXPECT_FALSE(AmxEmulation::inUse());
  }
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t l = 0; l < c.length; ++l) {
        std::vector<double> weight = weights(c, d, b, h, l);
        int64_t kh = h / (c.heads / c.keyHeads);
        for (int64_t e = 0; e < c.valueHead; ++e) {
          double expected = 0;
          for (int64_t s = 0; s < c.keys; ++s) {
            int64_t row = (b % c.keyBatches * c.keyHeads + kh) * c.keys + s;
            if (weight[s] != 0)
              expected += weight[s] * d.value[row * c.valueHead + e];
          }
          float actual =
              result.at(((b * c.length + l) * c.heads + h) * c.valueHead + e);
          if (std::isnan(expected))
            ASSERT_TRUE(std::isnan(actual)) << b << h << l << e;
          else
            ASSERT_NEAR(actual, 2 * expected, c.bf16 ? 0.02 : 1e-5)
                << b << ", " << h << ", " << l << ", " << e;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionTest,
                         testing::Combine(testing::Values("avx2", "host"),
                                          testing::ValuesIn(cases)),
                         caseName<Case>);

/// The same cases in bf16. Those of more than a few queries use AMX registers.
std::vector<Case> casesOfBF16() {
  std::vector<Case> all(std::begin(cases), std::end(cases));
  all.push_back({"sixteen_queries", 2, 2, 16, 40, 64, 64});
  all.push_back({"odd_keys", 2, 1, 33, 131, 40, 72, Mask::Bool});
  all.push_back({"blocks_of_keys", 1, 1, 70, 300, 64, 32});
  all.push_back({"causal_blocks", 2, 1, 300, 300, 32, 48, Mask::None, true});
  all.push_back({"causal_more_keys", 1, 1, 140, 290, 16, 16, Mask::None, true});
  all.push_back({"causal_fewer_keys", 1, 1, 150, 70, 16, 16, Mask::None, true});
  for (Case &c : all)
    c.bf16 = true;
  return all;
}

INSTANTIATE_TEST_SUITE_P(BF16, AttentionTest,
                         testing::Combine(testing::Values("avx2",
                                                          "sapphirerapids",
                                                          "znver4", "host"),
                                          testing::ValuesIn(casesOfBF16())),
                         caseName<Case>);

} // namespace
