//===- FootprintTest.cpp - tiles stay within their footprint --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/FootprintCase.h"

#include "kernels/emit/KernelFunction.h"
#include "support/kernels/AmxEmulation.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

#include <cstring>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

using Bytes = std::vector<char>;

/// The memory of one argument or result.
struct Operand {
  mlir::Type element;
  size_t bytes;
  bool isResult;
  std::optional<unsigned> inPlace; ///< the operand whose memory this is
};

/// A compiled kernel and its operands, in the order of its buffers.
class Subject {
public:
  Subject(const FootprintCase &c, const native::TargetInfo &target)
      : parsed(c.text), sizes(c.sizes) {
    if (!parsed) {
      ADD_FAILURE() << c.text;
      return;
    }
    mlir::func::FuncOp function = parsed.function();
    function->setAttr("anabranch.footprint",
                      mlir::UnitAttr::get(function.getContext()));
    describe(function);
    native::CompileOptions options;
    options.target = target;
    auto loaded = KernelLibrary::load(parsed.module(), options);
    if (!loaded) {
      ADD_FAILURE() << llvm::toString(loaded.takeError()) << c.text;
      return;
    }
    library.emplace(std::move(*loaded));
    tiles = library->plan("kernel", sizes).tiles;
  }

  native::ParsedKernel parsed;
  std::vector<int64_t> sizes;
  std::vector<Operand> operands;
  std::optional<KernelLibrary> library;
  int64_t tiles = 0;

  std::vector<anabranch_strided_region> footprint(int64_t tile) const {
    return library->footprint("kernel", sizes, tile, operands.size());
  }
  /// Runs one tile, or all tiles if `tile` is negative.
  int32_t run(std::vector<Bytes> &memory, int64_t tile) const {
    std::vector<void *> buffers;
    for (size_t i = 0; i < operands.size(); ++i)
      buffers.push_back(memory[operands[i].inPlace.value_or(i)].data());
    return library->run("kernel", buffers, sizes, tile < 0 ? 0 : tile,
                        tile < 0 ? tiles : tile + 1);
  }

private:
  void describe(mlir::func::FuncOp function) {
    size_t slot = 0;
    llvm::SmallVector<unsigned> numbers;
    auto add = [&](mlir::Type type, mlir::DenseI64ArrayAttr strides) {
      auto tensor = mlir::cast<mlir::RankedTensorType>(type);
      llvm::SmallVector<int64_t> shape(tensor.getShape());
      for (int64_t &size : shape)
        if (mlir::ShapedType::isDynamic(size))
          size = sizes[slot++];
      size_t elements = 1;
      for (size_t i = 0; i < shape.size(); ++i)
        elements = strides ? elements + (shape[i] - 1) * strides[i]
                           : elements * shape[i];
      operands.push_back({tensor.getElementType(),
                          elements * elementBytes(tensor.getElementType()),
                          false,
                          {}});
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      numbers.push_back(operands.size());
      if (mlir::isa<mlir::RankedTensorType>(type))
        add(type, argumentStrides(function, i));
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      add(type, resultStrides(function, i));
      operands.back().isResult = true;
      if (auto argument = inPlaceArgument(function, i))
        operands.back().inPlace = numbers[*argument];
    }
  }
};

/// Small numbers of the operand's type, valid as indices.
Bytes randomBytes(const Operand &operand, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(operand.bytes);
  auto fill = [&](auto zero) {
    using Element = decltype(zero);
    auto *values = reinterpret_cast<Element *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(Element); ++i)
      values[i] = Element(int(random() % 17)) / Element(1 + int(random() % 4));
  };
  if (operand.element.isF32())
    fill(0.0F);
  else if (operand.element.isF64())
    fill(0.0);
  else if (operand.element.isF16())
    fill(static_cast<_Float16>(0));
  else if (operand.element.isInteger(64))
    fill(int64_t(0));
  else if (operand.element.isBF16())
    for (size_t i = 1; i < bytes.size(); i += 2)
      bytes[i] = char(0x3F - random() % 2);
  else
    for (char &byte : bytes)
      byte = char(random() % 2);
  return bytes;
}

bool contains(const anabranch_strided_region &region, int64_t byte) {
  int64_t at = byte - region.offset;
  if (at < 0 || region.width == 0)
    return false;
  if (region.count == 1)
    return at < region.width;
  int64_t run = std::min(at / region.pitch, region.count - 1);
  return at - run * region.pitch < region.width;
}

int64_t bytesOf(const anabranch_strided_region &region) {
  return region.width == 0 ? 0 : region.width * region.count;
}

constexpr char poison = char(0xFF); // NaN, and no index

/// Runs a tile on inputs that are poisoned outside of its footprint, in
/// `memory`, and expects that it writes nothing outside of its footprint.
void runAlone(const Subject &subject, int64_t tile,
              std::vector<Bytes> &memory) {
  std::vector<anabranch_strided_region> regions = subject.footprint(tile);
  std::vector<Bytes> before = memory;
  for (auto [i, operand] : llvm::enumerate(subject.operands))
    if (!operand.isResult)
      for (size_t byte = 0; byte < operand.bytes; ++byte)
        if (!contains(regions[i], byte))
          before[i][byte] = poison;
  std::vector<Bytes> after = before;
  ASSERT_EQ(subject.run(after, tile), 0) << "tile " << tile;
  for (auto [i, operand] : llvm::enumerate(subject.operands)) {
    if (!operand.isResult)
      continue;
    size_t home = operand.inPlace.value_or(i);
    for (size_t byte = 0; byte < operand.bytes; ++byte) {
      if (after[home][byte] == before[home][byte])
        continue;
      ASSERT_TRUE(contains(regions[i], byte))
          << "tile " << tile << " writes byte " << byte << " of buffer " << i;
      memory[home][byte] = after[home][byte];
    }
  }
}

std::vector<FootprintCase> cases();

class FootprintTest
    : public testing::TestWithParam<std::tuple<const char *, int>> {};

TEST_P(FootprintTest, HoldsForEveryTile) {
  auto [targetName, number] = GetParam();
  FootprintCase c = cases()[number];
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(targetName));
  Subject subject(c, target);
  ASSERT_TRUE(subject.library);
  auto emulation = AmxEmulation::of(target);
  if (!native::runs(target) && !emulation)
    GTEST_SKIP();
  std::vector<Bytes> memory;
  for (auto [i, operand] : llvm::enumerate(subject.operands))
    memory.push_back(operand.isResult ? Bytes(operand.bytes, 0x5A)
                                      : randomBytes(operand, i));
  std::vector<Bytes> whole = memory;
  ASSERT_EQ(subject.run(whole, -1), 0);
  for (int64_t tile = 0; tile < subject.tiles; ++tile)
    ASSERT_NO_FATAL_FAILURE(runAlone(subject, tile, memory));
  for (auto [i, operand] : llvm::enumerate(subject.operands))
    if (operand.isResult && operand.bytes) {
      size_t home = operand.inPlace.value_or(i);
      EXPECT_EQ(
          std::memcmp(memory[home].data(), whole[home].data(), operand.bytes),
          0)
          << "buffer " << i;
    }
}

std::vector<FootprintCase> cases() {
  return {
      doubled("flat", "tensor<128x768xf32>", "tensor<128x768xf32>", "#id"),
      doubled("tails", "tensor<37x1001xf32>", "tensor<37x1001xf32>", "#id"),
      doubled("empty", "tensor<0x8xf32>", "tensor<0x8xf32>", "#id"),
      doubled("transposed", "tensor<300x200xf32>", "tensor<200x300xf32>",
              "#transposed"),
      doubled("strided", "tensor<64x500xf32>", "tensor<64x500xf32>", "#id",
              "{anabranch.strides = array<i64: 2000, 1>}"),
      doubled("strided_columns", "tensor<64x500xf32>", "tensor<64x500xf32>",
              "#id", "{anabranch.strides = array<i64: 1, 64>}"),
      rowBias("bias", "tensor<130x700xf32>", "tensor<700xf32>"),
      rowBias("one_row", "tensor<1x50000xf32>", "tensor<50000xf32>"),
      softmaxCase("softmax", "tensor<64x1000xf32>", "tensor<64xf32>"),
      softmaxCase("softmax_dynamic", "tensor<?x?xf32>", "tensor<?xf32>", true,
                  {33, 700, 33, 700}),
      softmaxCase("softmax_empty", "tensor<?x?xf32>", "tensor<?xf32>", true,
                  {5, 0, 5, 0}),
      joined("joined"),
      stacked("stacked"),
      heads("heads"),
      groups("groups"),
      inPlace("in_place"),
      update("update"),
      scatterCase("scatter", "50x8", "4x8", "4", "%p", "%s, %q"),
      scatterCase("scatter_rows", "3000x80", "4x80", "4", "%p", "%s, %q"),
      scatterCase("scatter_in_rows", "60x900", "60x70", "60x70", "%p, %q",
                  "%p, %s"),
      scatterCase("scatter_columns", "60x1100", "70x1100", "70x1100", "%p, %q",
                  "%s, %q"),
      gather("gather"),
      scan("scan"),
      product("product", {"", 1, 300, 200, 96, "mk", "kn"}),
      product("product_transposed", {"", 1, 128, 200, 600, "mk", "nk"}),
      product("product_few_rows", {"", 1, 5, 300, 700, "mk", "nk"}),
      product("product_left_transposed", {"", 1, 50, 70, 90, "km", "kn"}),
      product("product_batched", {"", 3, 70, 90, 33, "bmk", "bkn"}),
      product("product_heads", {"", 6, 40, 64, 33, "mbk", "bnk"}),
      product("product_bf16", {"", 1, 100, 130, 64, "mk", "nk", "bf16"}),
      product("product_f64", {"", 1, 30, 50, 20, "mk", "kn", "f64"}),
      product("product_panels",
              {"", 1, 40, 100, 70, "mk", "nk", "f32", false, 64}),
      product("product_i8", {"", 1, 40, 100, 70, "mk", "nk", "i8"}),
      product("product_i8_panels",
              {"", 1, 40, 100, 70, "mk", "nk", "i8", false, 64, 4}),
      product("product_dynamic",
              {"", 2, 70, 90, 33, "bmk", "bkn", "f32", true}),
      product("product_bf16_panels",
              {"", 1, 40, 100, 70, "mk", "nk", "bf16", false, 32, 2}),
      product("product_bf16_row",
              {"", 1, 1, 2100, 70, "mk", "nk", "bf16", false, 32, 2}),
      product("product_bf16_deep", {"", 1, 170, 70, 1301, "mk", "kn", "bf16"}),
      product("product_bf16_heads", {"", 6, 40, 64, 33, "mbk", "bnk", "bf16"}),
      product("product_bf16_dynamic",
              {"", 2, 70, 90, 33, "bmk", "bkn", "bf16", true}),
      attentionCase("attention", 150, 130, ""),
      attentionCase("attention_causal", 150, 150, ", causal"),
      attentionCase("attention_one", 1, 200, ""),
      symbolicAttention("attention_symbolic", 150, 130, ""),
      symbolicAttention("attention_symbolic_causal", 150, 150, ", causal"),
  };
}

std::string
caseName(const testing::TestParamInfo<std::tuple<const char *, int>> &info) {
  return native::testNameOf(
      {std::get<0>(info.param), cases()[std::get<1>(info.param)].name});
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FootprintTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "amx", "host"),
                     testing::Range(0, int(cases().size()))),
    caseName);

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

class PreciseFootprint : public testing::Test {
protected:
  std::optional<Subject> subject;

  bool compile(const FootprintCase &c) {
    subject.emplace(c, llvm::cantFail(native::TargetInfo::get("host")));
    return subject->library.has_value();
  }

  /// The sum of all tiles' bytes in one buffer.
  int64_t total(size_t buffer) {
    int64_t bytes = 0;
    for (int64_t tile = 0; tile < subject->tiles; ++tile)
      bytes += bytesOf(subject->footprint(tile)[buffer]);
    return bytes;
  }
};

TEST_F(PreciseFootprint, PointwiseTilesShareNothing) {
  ASSERT_TRUE(compile(
      doubled("flat", "tensor<128x768xf32>", "tensor<128x768xf32>", "#id")));
  EXPECT_GT(subject->tiles, 1);
  EXPECT_EQ(total(0), 128 * 768 * 4);
  EXPECT_EQ(total(1), 128 * 768 * 4);
  EXPECT_EQ(subject->footprint(1)[0].count, 1);
}

TEST_F(PreciseFootprint, StridedAndTransposedTilesShareNothing) {
  ASSERT_TRUE(
      compile(doubled("strided", "tensor<640x500xf32>", "tensor<640x500xf32>",
                      "#id", "{anabranch.strides = array<i64: 2000, 1>}")));
  EXPECT_GT(subject->tiles, 1);
  EXPECT_EQ(total(0), 640 * 500 * 4);
  EXPECT_EQ(total(1), 640 * 500 * 4);
  ASSERT_TRUE(compile(doubled("transposed", "tensor<304x208xf32>",
                              "tensor<208x304xf32>", "#transposed")));
  EXPECT_GT(subject->tiles, 1);
  EXPECT_EQ(total(0), 304 * 208 * 4);
  EXPECT_EQ(total(1), 304 * 208 * 4);
}

TEST_F(PreciseFootprint, RowsOfASoftmax) {
  ASSERT_TRUE(
      compile(softmaxCase("softmax", "tensor<64x1000xf32>", "tensor<64xf32>")));
  EXPECT_GT(subject->tiles, 1);
  EXPECT_EQ(total(0), 64 * 1000 * 4);
  EXPECT_EQ(total(1), 64 * 1000 * 4);
}

TEST_F(PreciseFootprint, PartsOfAJoin) {
  ASSERT_TRUE(compile(joined("joined")));
  EXPECT_EQ(total(0), 64 * 1000 * 4);
  EXPECT_EQ(total(1), 64 * 600 * 4);
  EXPECT_EQ(total(2), 64 * 1600 * 4);
}

TEST_F(PreciseFootprint, HeadsOfASlice) {
  ASSERT_TRUE(compile(heads("heads")));
  EXPECT_GT(subject->tiles, 1);
  EXPECT_EQ(total(0), 128 * 256 * 4);
  EXPECT_EQ(total(1), 128 * 256 * 4);
}

TEST_F(PreciseFootprint, BlocksOfAProduct) {
  ASSERT_TRUE(
      compile(product("product", {"", 1, 600, 256, 96, "mk", "kn", "f32"})));
  EXPECT_EQ(total(3), 600 * 256 * 4);
  for (int64_t tile = 0; tile < subject->tiles; ++tile) {
    std::vector<anabranch_strided_region> regions = subject->footprint(tile);
    int64_t rows = regions[3].count, columns = regions[3].width / 4;
    EXPECT_EQ(regions[0].count, 1);
    EXPECT_EQ(bytesOf(regions[0]), rows * 96 * 4);
    EXPECT_EQ(regions[0].offset, regions[3].offset / (256 * 4) * 96 * 4);
    EXPECT_EQ(regions[1].count, 96);
    EXPECT_EQ(bytesOf(regions[1]), columns * 96 * 4);
    EXPECT_EQ(bytesOf(regions[2]), columns * 4);
  }
}

TEST_F(PreciseFootprint, PanelsOfAProduct) {
  // As many columns as the host's blocks have: then a tile reads whole panels.
  int columns =
      llvm::cantFail(native::TargetInfo::get("host")).isa().vectorBytes() == 64
          ? 64
          : 16;
  ASSERT_TRUE(compile(product(
      "panels", {"", 1, 40, 128, 70, "mk", "nk", "f32", false, columns})));
  ASSERT_EQ(subject->tiles % 2, 0);
  const int64_t panel = 70 * columns * 4;
  anabranch_strided_region region = subject->footprint(1)[1];
  EXPECT_EQ(region.count, 1);
  EXPECT_EQ(region.offset, region.width);
  EXPECT_GT(region.width, 0);
  EXPECT_EQ(region.width % panel, 0);
}

TEST_F(PreciseFootprint, HeadAndQueriesOfAttention) {
  ASSERT_TRUE(compile(attentionCase("attention", 150, 130, "")));
  EXPECT_EQ(total(0), 150 * 64 * 4);
  EXPECT_EQ(total(4), 150 * 64 * 4);
  for (int64_t tile = 0; tile < subject->tiles; ++tile) {
    std::vector<anabranch_strided_region> regions = subject->footprint(tile);
    EXPECT_EQ(bytesOf(regions[1]), 130 * 16 * 4);
    EXPECT_EQ(bytesOf(regions[2]), 130 * 16 * 4);
    EXPECT_EQ(regions[3].count, 1);
    EXPECT_EQ(bytesOf(regions[3]) / (130 * 4), bytesOf(regions[0]) / (16 * 4));
  }
}

TEST_F(PreciseFootprint, GroupsReachTheirOwn) {
  ASSERT_TRUE(compile(groups("groups")));
  EXPECT_EQ(total(0), 300 * 200 * 4);
  EXPECT_EQ(total(1), 100000 * 4);
  EXPECT_EQ(total(2), 300 * 200 * 4);
  EXPECT_EQ(total(3), 100000 * 4);
}

} // namespace
