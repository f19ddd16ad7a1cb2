//===- AttentionTest.cpp - attention against plain loops ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionBlocking.h"
#include "kernels/attention/AttentionKernel.h"
#include "support/kernels/AmxEmulation.h"
#include "support/kernels/CompiledCase.h"
#include "support/kernels/PlanChoice.h"
#include "support/native/GuardedMemory.h"

#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <memory>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// A window is a boolean mask that shows few neighbouring keys. Most of the
/// others are NaN, so that a kernel must not read them. A causal mask is one of
/// bools that shows the keys up to the query's own. Runs show each query some
/// neighbouring keys or none, by bools or by sums, but for one key of one query
/// of the second batch. Padding hides keys at both ends from all queries.
enum class Mask {
  None,
  Additive,
  Bool,
  Window,
  Causal,
  Runs,
  AddedRuns,
  Padding
};

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
  /// For a target on which AMX registers are the fastest for f32 of any size.
  bool parts = false;

  bool isStreamed() const { return length <= 8 && head <= 256 && !dynamic; }
};

native::TargetInfo targetOf(const std::string &name, const Case &c) {
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
  if (c.parts)
    target.model.rates[int(native::Multiply::FmaF32)] = 1e-6;
  return target;
}

bool isAdded(Mask mask) {
  return mask == Mask::Additive || mask == Mask::AddedRuns;
}
bool isBool(Mask mask) { return mask != Mask::None && !isAdded(mask); }

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
  std::string mask = "tensor<2x1x" + (c.mask == Mask::Padding ? "1" : length) +
                     "x" + keys + "x" + (isAdded(c.mask) ? "f32>" : "i1>");
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

std::string planOf(const Case &c, const native::TargetInfo &target) {
  native::ParsedKernel parsed(kernelText(c));
  return cheapestPlan(parsed.function(), target);
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
               native::GuardedMemory::Side::End) {
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
  native::GuardedMemory memory;

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

  /// Runs of each query, and in the last query of the last batch an exception.
  void showRuns(const Case &c, std::mt19937 &random) {
    for (int64_t row = 0; row < batches * c.length; ++row) {
      int64_t end = int64_t(random() % (c.keys + 1));
      int64_t begin = row % 3 ? 0 : int64_t(random() % (end + 1));
      for (int64_t s = 0; s < c.keys; ++s)
        seen[row * c.keys + s] = s >= begin && s < end;
    }
    size_t last = (batches * c.length - 1) * c.keys;
    for (int64_t s = 0; s < c.keys; ++s)
      seen[last + s] = s < c.keys / 2 && s != c.keys / 4;
    for (size_t i = 0; i < seen.size(); ++i)
      additive[i] = seen[i] ? 0 : -std::numeric_limits<float>::infinity();
    additive[last + c.keys / 4] = 0.5f;
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
    if (c.mask == Mask::Causal)
      for (int64_t i = 0; i < batches * c.length * c.keys; ++i)
        seen[i] = i % c.keys <= i / c.keys % c.length + c.keys - c.length;
    if (c.mask == Mask::Window) {
      for (int64_t i = 0; i < batches * c.length * c.keys; ++i) {
        int64_t key = i % c.keys - i / c.keys % c.length;
        seen[i] = key >= windowBegin && key < windowEnd;
      }
      hide(c, key, c.head);
      hide(c, value, c.valueHead);
    }
    if (c.mask == Mask::Runs || c.mask == Mask::AddedRuns)
      showRuns(c, random);
    // Of a mask that queries share, the first row of a batch is in use, and
    // `seen` has one for each batch.
    if (c.mask == Mask::Padding)
      for (int64_t i = 0; i < batches * c.keys; ++i)
        seen[i] = i % c.keys >= c.keys / 5 && i % c.keys < c.keys * 2 / 3;
    // Some masks hide by the lowest number. A row that they hide sees all keys
    // alike.
    if (c.mask == Mask::Additive && c.length > 1)
      std::fill_n(additive.begin() + c.keys, c.keys,
                  std::numeric_limits<float>::lowest());
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
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  double highest = nothing;
  for (int64_t s = 0; s < c.keys; ++s) {
    const float *k =
        &d.key[((b % c.keyBatches * c.keyHeads + kh) * c.keys + s) * c.head];
    double score = 0;
    for (int64_t e = 0; e < c.head; ++e)
      score += double(q[e]) * k[e];
    score *= scale;
    int64_t at = (c.mask == Mask::Padding ? b : b * c.length + l) * c.keys + s;
    if (isAdded(c.mask))
      score += d.additive[at];
    bool selects = isBool(c.mask);
    if ((selects && !d.seen[at]) || (c.causal && s > l))
      score = nothing;
    scores[s] = score;
    highest = std::max(highest, score);
  }
  double sum = 0;
  for (double &score : scores)
    sum += score = highest == nothing ? 0 : std::exp(score - highest);
  for (double &score : scores)
    score = sum == 0 ? 0 : score / sum;
  return scores;
}

const Case cases[] = {
    {"whole", 2, 2, 64, 64, 32, 32},
    {"tails", 2, 2, 37, 70, 20, 24},
    {"wide", 1, 1, 19, 150, 64, 128},
    {"vectors_after_the_head", 1, 1, 37, 70, 16, 80},
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
    {"causal_mask", 2, 1, 290, 290, 16, 16, Mask::Causal},
    {"causal_mask_more_keys", 1, 1, 70, 300, 40, 24, Mask::Causal},
    {"causal_long", 1, 1, 300, 570, 16, 16, Mask::None, true},
    {"runs", 2, 1, 70, 330, 32, 16, Mask::Runs},
    {"runs_of_many_tiles", 16, 2, 40, 130, 16, 16, Mask::Runs},
    {"runs_dynamic", 1, 1, 70, 330, 16, 16, Mask::Runs, false, true},
    {"runs_few_keys", 1, 1, 70, 37, 16, 16, Mask::Runs, false, true},
    {"runs_causal", 2, 1, 150, 150, 16, 16, Mask::Runs, true},
    {"runs_shared", 8, 2, 3, 400, 16, 16, Mask::Runs},
    {"added_runs", 2, 1, 70, 330, 32, 16, Mask::AddedRuns},
    {"added_runs_shared", 8, 2, 2, 150, 16, 16, Mask::AddedRuns},
    {"padding", 2, 2, 70, 330, 16, 16, Mask::Padding},
    {"padding_shared", 8, 2, 3, 400, 16, 16, Mask::Padding},
    {"padding_dynamic", 2, 1, 70, 90, 16, 16, Mask::Padding, false, true},
};

class AttentionTest : public testing::TestWithParam<TargetAndCase<Case>> {
protected:
  Case c = std::get<1>(GetParam());
  const native::TargetInfo target = targetOf(std::get<0>(GetParam()), c);
  std::unique_ptr<AmxEmulation> emulation = AmxEmulation::of(target);

  /// The results of a kernel; none if this processor cannot run it.
  std::unique_ptr<Operand> run(Data &d);
  /// Calls `body` for each result with what a function of two lists, weights
  /// and values, has to combine.
  template <typename BodyT>
  void forEachResult(const Data &d, const Operand &results, BodyT body);
};

std::unique_ptr<Operand> AttentionTest::run(Data &d) {
  auto library = compileCase(packedAttentionRow, kernelText(c), target);
  if (!library || (!native::runs(target) && !emulation))
    return nullptr;
  std::vector<float> results(batches * c.length * c.heads * c.valueHead, 7);
  Operand query(d.query, c.bf16), key(d.key, c.bf16), value(d.value, c.bf16);
  auto result = std::make_unique<Operand>(results, c.bf16);
  std::vector<void *> buffers = {query.data(), key.data(), value.data()};
  std::vector<int64_t> sizes;
  if (c.dynamic)
    sizes = {c.length, c.keys, c.keys};
  if (isAdded(c.mask))
    buffers.push_back(d.additive.data());
  if (isBool(c.mask))
    buffers.push_back(d.seen.data());
  if (c.dynamic && c.mask == Mask::Padding)
    sizes.push_back(c.keys);
  else if (c.dynamic && c.mask != Mask::None)
    sizes.insert(sizes.end(), {c.length, c.keys});
  if (c.dynamic)
    sizes.insert(sizes.end(), {c.length, c.length});
  buffers.push_back(result->data());
  _mm_setcsr(_mm_getcsr() & ~_MM_EXCEPT_MASK);
  EXPECT_EQ(library->run("attend", buffers, sizes), 0);
  if (emulation) {
    EXPECT_EQ(AmxEmulation::products() > 0,
              planOf(c, target) == "tile_attention" && c.keys > 0);
    EXPECT_FALSE(AmxEmulation::inUse());
  }
  return result;
}

template <typename BodyT>
void AttentionTest::forEachResult(const Data &d, const Operand &results,
                                  BodyT body) {
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t l = 0; l < c.length; ++l) {
        std::vector<double> weight = weights(c, d, b, h, l);
        int64_t kh = h / (c.heads / c.keyHeads);
        int64_t first = (b % c.keyBatches * c.keyHeads + kh) * c.keys;
        for (int64_t e = 0; e < c.valueHead; ++e) {
          double expected = 0;
          float single = 0;
          for (int64_t s = 0; s < c.keys; ++s) {
            float value = d.value[(first + s) * c.valueHead + e];
            if (weight[s] != 0) {
              expected += weight[s] * value;
              single = std::fma(float(weight[s]), value, single);
            }
          }
          SCOPED_TRACE(std::to_string(b) + ", " + std::to_string(h) + ", " +
                       std::to_string(l) + ", " + std::to_string(e));
          body(results.at(((b * c.length + l) * c.heads + h) * c.valueHead + e),
               2 * expected, 2 * single);
          if (testing::Test::HasFailure())
            return;
        }
      }
}

TEST_P(AttentionTest, EqualsPlainLoops) {
  if (c.parts)
    EXPECT_EQ(planOf(c, target),
              c.isStreamed() ? "streamed_attention" : "tile_attention");
  Data d(c);
  std::unique_ptr<Operand> results = run(d);
  if (!results)
    GTEST_SKIP();
  // Arithmetic on what is in memory by chance takes long if it is denormal.
  EXPECT_FALSE(_mm_getcsr() & _MM_EXCEPT_DENORM);
  forEachResult(d, *results, [&](float actual, double expected, float) {
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual));
    else
      EXPECT_NEAR(actual, expected, c.bf16 ? 0.02 : 1e-5);
  });
}

/// A key that some query of the first head does not see, in the last third if
/// there is one.
std::optional<int64_t> findHiddenKey(const Case &c, const Data &d) {
  std::vector<std::vector<double>> rows;
  for (int64_t query = 0; query < c.length; ++query)
    rows.push_back(weights(c, d, 0, 0, query));
  for (int64_t i = 0; i < c.keys; ++i) {
    int64_t key = (c.keys * 2 / 3 + i) % c.keys;
    for (const std::vector<double> &row : rows)
      if (row[key] == 0)
        return key;
  }
  return std::nullopt;
}

TEST_P(AttentionTest, HiddenKeysDoNotMatter) {
  if ((c.mask == Mask::None && !c.causal) || c.keys == 0)
    GTEST_SKIP();
  Data d(c);
  // One key of each head is NaN, and its value is not finite: some rows see
  // them, and some do not. A NaN plus an additive mask is NaN, so there only
  // the value is bad. (An infinite key may make a weight of zero, and zero
  // times an infinite value is NaN, which the reference does not say.)
  std::optional<int64_t> bad = findHiddenKey(c, d);
  if (!bad)
    GTEST_SKIP();
  for (int64_t head = 0; head < c.keyBatches * c.keyHeads; ++head) {
    float number = head % 2 ? std::numeric_limits<float>::quiet_NaN()
                            : std::numeric_limits<float>::infinity();
    int64_t row = head * c.keys + *bad;
    d.value[row * c.valueHead + head % c.valueHead] = number;
    if (!isAdded(c.mask))
      d.key[row * c.head + 1] = std::numeric_limits<float>::quiet_NaN();
  }
  std::unique_ptr<Operand> results = run(d);
  if (!results)
    GTEST_SKIP();
  int64_t hidden = 0;
  forEachResult(d, *results, [&](float actual, double expected, float) {
    hidden += std::isfinite(float(expected));
    if (!std::isfinite(float(expected)))
      EXPECT_FALSE(std::isfinite(actual));
    else
      EXPECT_NEAR(actual, expected, c.bf16 ? 0.02 : 1e-5);
  });
  EXPECT_GT(hidden, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionTest,
                         testing::Combine(testing::Values("portable", "aarch64",
                                                          "neoverse-v1", "avx2",
                                                          "host"),
                                          testing::ValuesIn(cases)),
                         caseName<Case>);

/// The same cases, and more. Those of more than a few queries use AMX registers
/// in bf16, and in parts of f32.
std::vector<Case> casesOfAmx(bool bf16) {
  std::vector<Case> all(std::begin(cases), std::end(cases));
  all.push_back({"sixteen_queries", 2, 2, 16, 40, 64, 64});
  all.push_back({"odd_keys", 2, 1, 33, 131, 40, 72, Mask::Bool});
  all.push_back({"blocks_of_keys", 1, 1, 70, 300, 64, 32});
  all.push_back({"causal_blocks", 2, 1, 300, 300, 32, 48, Mask::None, true});
  all.push_back({"causal_more_keys", 1, 1, 140, 290, 16, 16, Mask::None, true});
  all.push_back({"causal_fewer_keys", 1, 1, 150, 70, 16, 16, Mask::None, true});
  for (Case &c : all) {
    c.bf16 = bf16;
    c.parts = !bf16;
  }
  // Streamed keys have no parts.
  if (!bf16)
    llvm::erase_if(all, [](const Case &c) { return c.isStreamed(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    BF16, AttentionTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "sapphirerapids", "znver4"),
                     testing::ValuesIn(casesOfAmx(true))),
    caseName<Case>);

INSTANTIATE_TEST_SUITE_P(Parts, AttentionTest,
                         testing::Combine(testing::Values("amx"),
                                          testing::ValuesIn(casesOfAmx(false))),
                         caseName<Case>);

//===----------------------------------------------------------------------===//
// Parts of f32
//===----------------------------------------------------------------------===//

using PartsAttentionTest = AttentionTest;

TEST_P(PartsAttentionTest, IsAsExactAsF32) {
  Data d(c);
  std::unique_ptr<Operand> results = run(d);
  if (!results)
    GTEST_SKIP();
  double ours = 0, loops = 0;
  forEachResult(d, *results, [&](float actual, double expected, float single) {
    ours += (actual - expected) * (actual - expected);
    loops += (single - expected) * (single - expected);
  });
  EXPECT_LE(std::sqrt(ours), 2 * std::sqrt(loops));
}

TEST_P(PartsAttentionTest, KindsOfNumbersAreThoseOfLoops) {
  constexpr double largest = std::numeric_limits<float>::max();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Data d(c);
  // Columns of values. A part of the largest number rounds to infinity.
  auto setValue = [&](int64_t key, int64_t column, double value) {
    d.value[key * c.valueHead + column] = float(value);
  };
  setValue(3, 0, infinity);
  setValue(40, 1, -infinity);
  setValue(5, 2, std::numeric_limits<double>::quiet_NaN());
  setValue(6, 3, infinity);
  setValue(7, 3, -infinity);
  setValue(8, 4, largest);
  // Of the second head: a query whose scores are infinite or NaN, and one whose
  // parts overflow where its scores do not.
  float *query = &d.query[c.length * c.head];
  query[0] = infinity;
  std::fill_n(query + c.head, c.head, 0);
  query[c.head] = float(largest);
  for (int64_t s = 0; s < c.keys; ++s)
    d.key[(c.keys + s) * c.head] = s % 2 ? 1e-38F : -1e-38F;
  std::unique_ptr<Operand> results = run(d);
  if (!results)
    GTEST_SKIP();
  int64_t notFinite = 0, large = 0;
  forEachResult(d, *results, [&](float actual, double expected, float) {
    notFinite += !std::isfinite(float(expected));
    large += std::isfinite(float(expected)) && std::fabs(expected) > 1e30;
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual)) << actual;
    else if (std::isinf(float(expected)))
      EXPECT_EQ(actual, float(expected));
    else
      EXPECT_NEAR(actual, expected, 1e-5 * std::max(1.0, std::fabs(expected)));
  });
  EXPECT_GT(notFinite, 4 * c.length);
  EXPECT_GT(large, c.length / 2);
}

INSTANTIATE_TEST_SUITE_P(
    Parts, PartsAttentionTest,
    testing::Combine(
        testing::Values("amx"),
        testing::Values(Case{"deep", 2, 2, 40, 300, 128, 64, Mask::None, false,
                             false, 2, false, true},
                        Case{"tails", 2, 2, 61, 70, 20, 24, Mask::None, false,
                             true, 2, false, true})),
    caseName<Case>);

/// Few queries read keys and values in place. Tile registers multiply bf16, and
/// f32 if so many queries share a copy that its parts pay.
TEST(AttentionPlans, FollowQueriesAndTypes) {
  auto planOn = [](const char *name, int64_t length, bool bf16) {
    Case c{"", 12, 12, length, 512, 64, 64};
    c.bf16 = bf16;
    return planOf(c, targetOf(name, c));
  };
  for (const char *name : {"portable", "haswell", "znver4", "icelake-server",
                           "sapphirerapids", "aarch64", "neoverse-v1"})
    for (bool bf16 : {false, true})
      for (int64_t length : {1, 2, 4, 7, 8})
        EXPECT_EQ(planOn(name, length, bf16), "streamed_attention")
            << name << " " << length << (bf16 ? " bf16" : " f32");
  for (int64_t length : {9, 16, 512}) {
    EXPECT_EQ(planOn("znver4", length, true), "packed_attention") << length;
    EXPECT_EQ(planOn("sapphirerapids", length, true), "tile_attention")
        << length;
    EXPECT_EQ(planOn("sapphirerapids", length, false),
              length < 512 ? "packed_attention" : "tile_attention")
        << length;
  }
}

/// The values of a block stay in the first level of cache, and blocks of rows
/// cover a tile. Tiles are long where enough of them are left.
TEST(AttentionPlans, CutUpForTheCore) {
  auto blockingOn = [](const char *name, const Case &c) {
    native::TargetInfo target = targetOf(name, c);
    native::ParsedKernel parsed(kernelText(c));
    std::string why;
    auto ops = parsed.function().front().getOps<ir::AttentionOp>();
    return *AttentionBlocking::choose(*ops.begin(), target,
                                      AttentionBlocking::Way::Packed, why);
  };
  for (const char *name : {"portable", "haswell", "icelake-server", "znver4",
                           "znver5", "sapphirerapids", "neoverse-v1"})
    for (bool bf16 : {false, true})
      for (int64_t head : {32, 64, 128})
        for (int64_t length : {49, 197, 512, 2048}) {
          Case c{"", 8, 8, length, length, head, head};
          c.bf16 = bf16;
          SCOPED_TRACE(std::string(name) + ", " + std::to_string(length) +
                       ", " + std::to_string(head) + (bf16 ? ", bf16" : ""));
          AttentionBlocking found = blockingOn(name, c);
          int64_t step = AttentionBlocking::vectorsOfStep * found.lanes;
          int64_t bytes = found.valueWords() * int64_t(sizeof(float));
          EXPECT_EQ(found.keys % step, 0);
          EXPECT_TRUE(found.keys == step ||
                      bytes < targetOf(name, c).model.l1Bytes);
          EXPECT_EQ(found.queries % found.rows, 0);
          EXPECT_EQ(found.scoreRows % found.rows, 0);
          EXPECT_LE(found.scoreRows, found.queries);
          // 16 heads leave enough tiles.
          EXPECT_GE(found.queries, std::min<int64_t>(length, 128));
        }
  Case narrow{"", 8, 8, 512, 512, 64, 64};
  narrow.bf16 = true;
  // 32 and 48 KiB hold so many keys' values of bf16.
  EXPECT_EQ(blockingOn("znver4", narrow).keys, 128);
  EXPECT_EQ(blockingOn("znver5", narrow).keys, 256);
  // One head has too few queries for long tiles.
  narrow.heads = narrow.keyHeads = 1;
  EXPECT_LT(blockingOn("znver5", narrow).queries, 128);
}

TEST(AttentionPlans, SayWhyTheyRefuse) {
  auto refusal = [](const Case &c, const char *target, const PlanRow &row) {
    return refusalOf(row, kernelText(c), targetOf(target, c));
  };
  Case c{"", 4, 4, 12, 40, 64, 64}, large{"", 4, 4, 2, 40, 512, 64};
  EXPECT_EQ(refusal(c, "znver4", streamedAttentionRow),
            "it has 12 queries; a copy of keys and values costs less for more "
            "than 8");
  EXPECT_EQ(refusal(large, "znver4", streamedAttentionRow),
            "a head has more than 16 vectors");
  EXPECT_EQ(refusal(c, "znver4", tileAttentionRow),
            "the target has no tile registers for floats");
  EXPECT_EQ(refusal(c, "znver4", packedAttentionRow), "");
}

} // namespace
