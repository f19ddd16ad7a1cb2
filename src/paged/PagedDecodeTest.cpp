//===- PagedDecodeTest.cpp - attention over pages against its formula -----===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/PagedDecode.h"

#include "machine/processor/CpuFeatures.h"
#include "paged/AttendCode.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

using namespace anabranch;

namespace {

/// A number as the cache has it, with its value.
template <typename T> T narrow(float number);
template <> float narrow(float number) { return number; }
template <> uint16_t narrow(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return uint16_t(bits >> 16);
}
double valueOf(float number) { return number; }
double valueOf(uint16_t number) {
  uint32_t bits = uint32_t(number) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

struct Sizes {
  int64_t heads, keyHeads, headSize, pageSize, window;
  std::vector<int32_t> lengths;
};

/// A step over random pages. The bytes of pages that no token has are NaN, as a
/// cache may have them.
template <typename T> class Step {
public:
  explicit Step(const Sizes &sizes)
      : sizes(sizes), requests(int64_t(sizes.lengths.size())) {
    decode.dtype = sizeof(T) == 2 ? DType::BF16 : DType::F32;
    decode.requests = requests, decode.heads = sizes.heads;
    decode.keyHeads = sizes.keyHeads, decode.headSize = sizes.headSize;
    decode.pageSize = sizes.pageSize, decode.window = sizes.window;
    decode.scale = 0.3f;
    makePages();
    makeTokens();
  }

  void run(paged::RunTask task) {
    std::vector<float> scratch(pagedDecodeScratch(decode));
    for (int64_t request = 0; request < requests; ++request)
      for (int64_t head = 0; head < sizes.keyHeads; ++head)
        task(decode, request, head, scratch.data());
  }

  void expectFormula(double tolerance) const {
    for (int64_t request = 0; request < requests; ++request)
      for (int64_t head = 0; head < sizes.heads; ++head)
        expectHead(request, head, tolerance);
  }

  PagedDecode decode{};
  std::vector<int32_t> table;
  std::vector<int64_t> slots;

private:
  Sizes sizes;
  int64_t requests;
  std::mt19937 random{7};
  std::vector<T> keys, values, query, key, value, output;

  T number() {
    return narrow<T>(std::normal_distribution<float>(0, 1)(random));
  }
  std::vector<T> numbers(int64_t count) {
    std::vector<T> made(count);
    std::generate(made.begin(), made.end(), [&] { return number(); });
    return made;
  }

  int64_t offset(int64_t request, int64_t keyHead, int64_t token) const {
    int64_t page = table[request * decode.tableStep + token / sizes.pageSize];
    return page * decode.pageStep + keyHead * decode.headStep;
  }
  T &keyAt(int64_t request, int64_t keyHead, int64_t token, int64_t place) {
    return keys[offset(request, keyHead, token) + place * sizes.pageSize +
                token % sizes.pageSize];
  }
  T &valueAt(int64_t request, int64_t keyHead, int64_t token, int64_t place) {
    return values[offset(request, keyHead, token) +
                  token % sizes.pageSize * sizes.headSize + place];
  }

  void makePages() {
    int64_t longest =
        *std::max_element(sizes.lengths.begin(), sizes.lengths.end());
    decode.tableWidth = decode.tableStep = longest / sizes.pageSize + 1;
    decode.pages = requests * decode.tableWidth;
    table.resize(decode.pages);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    decode.headStep = 2 * sizes.pageSize * sizes.headSize;
    decode.pageStep = sizes.keyHeads * decode.headStep;
    keys.assign(decode.pages * decode.pageStep, narrow<T>(NAN));
    values = keys;
    decode.keys = keys.data(), decode.values = values.data();
    decode.table = table.data(), decode.lengths = sizes.lengths.data();
    for (int64_t request = 0; request < requests; ++request)
      for (int64_t head = 0; head < sizes.keyHeads; ++head)
        for (int64_t token = 0; token + 1 < sizes.lengths[request]; ++token)
          for (int64_t place = 0; place < sizes.headSize; ++place) {
            keyAt(request, head, token, place) = number();
            valueAt(request, head, token, place) = number();
          }
  }

  void makeTokens() {
    int64_t all = sizes.heads * sizes.headSize;
    int64_t pairs = sizes.keyHeads * sizes.headSize;
    decode.queryStep = all + 3, decode.keyStep = decode.valueStep = pairs + 5;
    query = numbers(requests * decode.queryStep);
    key = numbers(requests * decode.keyStep);
    value = numbers(requests * decode.keyStep);
    output.resize(requests * all);
    decode.query = query.data(), decode.key = key.data();
    decode.value = value.data(), decode.output = output.data();
    for (int64_t request = 0; request < requests; ++request) {
      int64_t token = sizes.lengths[request] - 1;
      int64_t page = table[request * decode.tableStep + token / sizes.pageSize];
      slots.push_back(page * sizes.pageSize + token % sizes.pageSize);
    }
    decode.slots = slots.data();
  }

  /// The new token's key and value are expected in the cache, too.
  void expectHead(int64_t request, int64_t head, double tolerance) const {
    Step &self = const_cast<Step &>(*this);
    int64_t keyHead = head * sizes.keyHeads / sizes.heads;
    int64_t length = sizes.lengths[request], size = sizes.headSize;
    int64_t begin =
        sizes.window ? std::max<int64_t>(0, length - sizes.window) : 0;
    std::vector<double> sums(size);
    double total = 0;
    for (int64_t token = begin; token < length; ++token) {
      double score = 0;
      for (int64_t i = 0; i < size; ++i)
        score += valueOf(query[request * decode.queryStep + head * size + i]) *
                 valueOf(self.keyAt(request, keyHead, token, i));
      double weight = std::exp(score * double(decode.scale));
      total += weight;
      for (int64_t i = 0; i < size; ++i)
        sums[i] += weight * valueOf(self.valueAt(request, keyHead, token, i));
    }
    for (int64_t i = 0; i < size; ++i) {
      double found = valueOf(output[(request * sizes.heads + head) * size + i]);
      ASSERT_NEAR(found, sums[i] / total, tolerance)
          << "request " << request << ", head " << head << ", place " << i;
    }
  }
};

std::vector<const paged::AttendCode *> codes() {
  std::vector<const paged::AttendCode *> found{paged::attendCode16()};
  if (paged::attendCode32() && machine::vectorBytes() >= 32)
    found.push_back(paged::attendCode32());
  if (paged::attendCode64() && machine::vectorBytes() == 64)
    found.push_back(paged::attendCode64());
  return found;
}

const std::vector<Sizes> all{
    {9, 3, 64, 128, 0, {1, 2, 40, 127, 128, 129, 300}},
    {1, 1, 16, 16, 0, {1, 15, 16, 17, 33}},
    {11, 1, 80, 32, 0, {5, 33, 64}},
    {14, 2, 96, 32, 40, {39, 40, 41, 100, 200}},
    {7, 7, 32, 48, 1, {1, 2, 48, 49}},
    {6, 3, 256, 64, 16, {15, 16, 17, 129}},
};

TEST(PagedDecode, FloatsFollowTheFormula) {
  for (const Sizes &sizes : all)
    for (const paged::AttendCode *code : codes()) {
      Step<float> step(sizes);
      ASSERT_TRUE(checkPagedDecode(step.decode).ok());
      step.run(code->runFloat);
      step.expectFormula(3e-5);
    }
}

TEST(PagedDecode, BFloatsFollowTheFormula) {
  for (const Sizes &sizes : all)
    for (const paged::AttendCode *code : codes()) {
      Step<uint16_t> step(sizes);
      ASSERT_TRUE(checkPagedDecode(step.decode).ok());
      step.run(code->runBFloat);
      step.expectFormula(1.0 / 64); // half of the last place of 4
    }
}

TEST(PagedDecode, TasksAreTheHeadsOfRequests) {
  Step<float> step(all.front());
  std::vector<float> scratch(pagedDecodeScratch(step.decode));
  int64_t tasks = step.decode.requests * step.decode.keyHeads;
  for (int64_t task = tasks; task-- > 0;)
    attendPages(step.decode, task, task + 1, scratch.data());
  step.expectFormula(3e-5);
}

TEST(PagedDecode, RefusesWhatIsOutsideOfTheCache) {
  auto messageOf = [](auto change) {
    Step<float> step({2, 1, 16, 16, 0, {20, 3}});
    change(step);
    return checkPagedDecode(step.decode).message();
  };
  EXPECT_EQ(messageOf([](auto &step) { step.table[1] = 4; }),
            "request 0 has page 4 of 4");
  EXPECT_EQ(messageOf([](auto &step) { step.table[2] = -1; }),
            "request 1 has page -1 of 4");
  EXPECT_EQ(messageOf([](auto &step) { step.slots[1] = 64; }),
            "request 1 writes slot 64 of 64");
  EXPECT_EQ(messageOf([](auto &step) { step.slots[0] = -1; }),
            "request 0 writes slot -1 of 64");
  EXPECT_EQ(messageOf([](auto &step) { step.decode.tableWidth = 1; }),
            "request 0 has 20 tokens, and room for 16");
  EXPECT_EQ(messageOf([](auto &step) { step.decode.keyHeads = 3; }),
            "2 heads cannot share 3 key heads");
  EXPECT_EQ(messageOf([](auto &step) { step.decode.headSize = 24; }),
            "a head or a page of 24 is no multiple of 16");
  EXPECT_EQ(messageOf([](auto &step) { step.decode.window = -1; }),
            "the window is negative");
  EXPECT_EQ(messageOf([](auto &step) { step.decode.dtype = DType::F16; }),
            "attention over pages is of bf16 or f32, not f16");
}

} // namespace
