//===- ImagePatchTest.cpp - convolutions in AMX registers against loops ---===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/contraction/GemmBlocking.h"
#include "support/codegen/AmxEmulation.h"
#include "support/codegen/GemmNumbers.h"
#include "support/codegen/KernelLibrary.h"
#include "support/codegen/ParsedKernel.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace anabranch::codegen;

namespace {

/// A convolution of images with channels last by a weight in panels.
struct Convolution {
  const char *name;
  int64_t images, height, columns, channels, filters;
  int64_t taps[2];
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t width = 32; ///< of a panel
  /// A few numbers are infinite or NaN.
  bool isSpecial = false;

  int64_t sizeOf(int dim) const { return dim ? columns : height; }
  int64_t points(int dim) const {
    int64_t window = (taps[dim] - 1) * dilation + 1;
    return (sizeOf(dim) + 2 * padding - window) / stride + 1;
  }
  int64_t rows() const { return images * points(0) * points(1); }
  int64_t depth() const { return taps[0] * taps[1] * channels; }
  /// Whether the windows are the rows of the image as a matrix.
  bool isMatrix() const {
    return taps[0] * taps[1] == 1 && stride == 1 && padding == 0;
  }
  /// The product of its windows and its weight.
  GemmCase product(const char *type) const {
    int64_t kPack = std::string(type) == "bf16" ? 2 : 1;
    return {name, 1,    rows(), filters, depth(), "mk",
            "nk", type, false,  width,   kPack};
  }
};

std::string tensorOf(std::initializer_list<int64_t> sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

/// Windows of several taps, and of one.
constexpr const char *severalTaps = R"mlir(
  %windows = linalg.generic {
      indexing_maps = [affine_map<(b, y, x, i, j, c) -> (b, ROW, COLUMN, c)>,
                       affine_map<(b, y, x, i, j, c) -> (b, y, x, i, j, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel",
                        "parallel", "parallel"]}
      ins(SOURCE) outs(%view : WINDOWS)
      attrs = {anabranch.windows} {
  ^bb0(%x: TYPE, %o: TYPE):
    linalg.yield %x : TYPE
  } -> WINDOWS
  %left = tensor.collapse_shape %windows [[0], [1], [2], [3, 4, 5]]
      : WINDOWS into LEFT)mlir";
constexpr const char *oneTap = R"mlir(
  %left = linalg.generic {
      indexing_maps = [affine_map<(b, y, x, c) -> (b, y * STEP, x * STEP, c)>,
                       affine_map<(b, y, x, c) -> (b, y, x, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(SOURCE) outs(%view : LEFT)
      attrs = {anabranch.windows} {
  ^bb0(%x: TYPE, %o: TYPE):
    linalg.yield %x : TYPE
  } -> LEFT)mlir";

constexpr const char *border = R"mlir(
  %zero = arith.constant 0.0 : TYPE
  %empty_border = tensor.empty() : PADDED
  %zeros = linalg.fill ins(%zero : TYPE) outs(%empty_border : PADDED) -> PADDED
  %padded = tensor.insert_slice %image into
      %zeros[0, PAD, PAD, 0] [SIZES] [1, 1, 1, 1] : IMAGE into PADDED)mlir";

std::string textOf(const Convolution &c, const char *type) {
  std::string text = R"mlir(
func.func @convolution(%image: IMAGE, %packed: PANELS) -> SUMS
    attributes {anabranch.kernel} {
  BORDER
  %view = tensor.empty() : VIEW
  WINDOWED
  VIEWS
  %start = arith.constant 0.0 : f32
  %empty = tensor.empty() : SUMS
  %init = linalg.fill ins(%start : f32) outs(%empty : SUMS) -> SUMS
  %product = linalg.generic {
      indexing_maps = [affine_map<(b, y, x, n, k) -> (b, y, x, k)>,
                       affine_map<(b, y, x, n, k) -> (n, k)>,
                       affine_map<(b, y, x, n, k) -> (b, y, x, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel",
                        "reduction"]}
      ins(%left, %right : LEFT, RIGHT) outs(%init : SUMS) {
  ^bb0(%x: TYPE, %y: TYPE, %s: f32):
    WIDEN
    %p = arith.mulf %a, %c : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> SUMS
  return %product : SUMS
})mlir";
  GemmCase product = c.product(type);
  int64_t high = c.points(0), wide = c.points(1);
  auto along = [&](const char *point, const char *tap) {
    return std::string(point) + " * " + std::to_string(c.stride) + " + " + tap +
           " * " + std::to_string(c.dilation);
  };
  replaceAll(text, "WIDEN",
             std::string(type) == "f32" ? ""
                                        : "%a = arith.extf %x : TYPE to f32\n"
                                          "%c = arith.extf %y : TYPE to f32");
  if (std::string(type) == "f32")
    replaceAll(text, "%a, %c", "%x, %y");
  bool hasTaps = c.taps[0] * c.taps[1] > 1;
  replaceAll(text, "WINDOWED", hasTaps ? severalTaps : oneTap);
  replaceAll(text, "= tensor.empty() : VIEW",
             hasTaps ? "= tensor.empty() : WINDOWS"
                     : "= tensor.empty() : LEFT");
  replaceAll(text, "STEP", std::to_string(c.stride));
  replaceAll(text, "SOURCE", c.padding ? "%padded : PADDED" : "%image : IMAGE");
  replaceAll(text, "BORDER", c.padding ? border : "");
  replaceAll(text, "VIEWS", viewText(product));
  replaceAll(text, "PANELS", panelsType(product));
  replaceAll(text, "RIGHT", tensorType(product, "nk", type));
  replaceAll(text, "LEFT", tensorOf({c.images, high, wide, c.depth()}, type));
  replaceAll(text, "SUMS", tensorOf({c.images, high, wide, c.filters}, "f32"));
  replaceAll(text, "IMAGE",
             tensorOf({c.images, c.height, c.columns, c.channels}, type));
  replaceAll(text, "PADDED",
             tensorOf({c.images, c.height + 2 * c.padding,
                       c.columns + 2 * c.padding, c.channels},
                      type));
  replaceAll(
      text, "WINDOWS",
      tensorOf({c.images, high, wide, c.taps[0], c.taps[1], c.channels}, type));
  replaceAll(text, "SIZES",
             std::to_string(c.images) + ", " + std::to_string(c.height) + ", " +
                 std::to_string(c.columns) + ", " + std::to_string(c.channels));
  replaceAll(text, "PAD", std::to_string(c.padding));
  replaceAll(text, "ROW", along("y", "i"));
  replaceAll(text, "COLUMN", along("x", "j"));
  replaceAll(text, "TYPE", type);
  return text;
}

/// The windows of an image as a matrix.
std::vector<double> windowsOf(const Convolution &c,
                              const std::vector<double> &image) {
  std::vector<double> windows;
  auto at = [&](int64_t b, int64_t y, int64_t x, int64_t channel) {
    bool isInside = y >= 0 && y < c.height && x >= 0 && x < c.columns;
    return isInside ? image[((b * c.height + y) * c.columns + x) * c.channels +
                            channel]
                    : 0.0;
  };
  for (int64_t b = 0; b < c.images; ++b)
    for (int64_t y = 0; y < c.points(0); ++y)
      for (int64_t x = 0; x < c.points(1); ++x)
        for (int64_t i = 0; i < c.taps[0]; ++i)
          for (int64_t j = 0; j < c.taps[1]; ++j)
            for (int64_t channel = 0; channel < c.channels; ++channel)
              windows.push_back(at(b, y * c.stride + i * c.dilation - c.padding,
                                   x * c.stride + j * c.dilation - c.padding,
                                   channel));
  return windows;
}

/// Compares sums with f64, or with f32 where that is not finite.
void expectSums(const float *sums, const std::vector<double> &left,
                const std::vector<double> &right, const GemmCase &c) {
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = 0; n < c.n; ++n) {
      double exact = 0, size = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        double product = left[m * c.k + k] * right[n * c.k + k];
        exact += product;
        size += std::fabs(product);
      }
      float sum = sums[m * c.n + n];
      if (std::isnan(exact))
        ASSERT_TRUE(std::isnan(sum)) << m << ", " << n;
      else if (std::isinf(exact))
        ASSERT_EQ(sum, exact) << m << ", " << n;
      else
        ASSERT_NEAR(sum, exact,
                    (4 + 2 * std::sqrt(double(c.k))) * 0x1p-24 * size)
            << m << ", " << n;
    }
}

class ImagePatchTest
    : public testing::TestWithParam<std::tuple<const char *, Convolution>> {};

TEST_P(ImagePatchTest, SumsAreAsExactAsOfF32) {
  const auto &[typeName, c] = GetParam();
  std::string type = typeName;
  TargetInfo target = llvm::cantFail(TargetInfo::get("amx"));
  // AMX then pays for images of any size.
  for (Multiply multiply : {Multiply::FmaF32, Multiply::DotBF16})
    target.model.rates[int(multiply)] = 1e-6;
  std::string text = textOf(c, typeName), why;
  ParsedKernel parsed(text);
  ASSERT_TRUE(parsed) << text;
  auto found = Contraction::find(parsed.function(), why);
  ASSERT_TRUE(found) << why;
  GemmBlocking blocking = GemmBlocking::choose(*found, target);
  // Parts are always copied.
  bool isInPlace = type == "bf16" && c.isMatrix();
  ASSERT_EQ(blocking.patch.has_value(), !isInPlace);
  ASSERT_EQ(blocking.packLeft, !isInPlace);
  EXPECT_EQ(blocking.parts, type == "f32" ? 3 : type == "f16" ? 2 : 1);
  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError()) << text;
  auto emulation = AmxEmulation::of(target);
  if (!target.runsHere() && !emulation)
    GTEST_SKIP() << "this processor lacks what AMX's emulation needs";
  GemmCase product = c.product(typeName);
  Numbers image =
      Numbers::reals(c.images * c.height * c.columns * c.channels, type, 1);
  Numbers weight = Numbers::reals(c.filters * c.depth(), type, 2);
  if (c.isSpecial) {
    image.set(image.values.size() / 2, type, INFINITY);
    image.set(image.values.size() - 1, type, -INFINITY);
    weight.set(c.depth() + 1, type, NAN);
    weight.set(7 * c.depth(), type, INFINITY);
  }
  std::vector<double> windows = windowsOf(c, image.values);
  for (auto side : {GuardedMemory::Side::End, GuardedMemory::Side::Begin}) {
    Guarded imageMemory(image.bytes, side);
    Guarded weightMemory(rightBytes(product, weight), side);
    GuardedMemory sums(product.m * product.n * sizeof(float), side);
    ASSERT_EQ(library->run(
                  "convolution",
                  {imageMemory.data(), weightMemory.data(), sums.data()}, {}),
              0);
    EXPECT_TRUE(sums.surroundingsAreIntact());
    expectSums(reinterpret_cast<const float *>(sums.data()), windows,
               weight.values, product);
  }
}

const Convolution convolutions[] = {
    {"points", 1, 9, 11, 64, 40, {1, 1}},
    {"points_of_images", 3, 5, 7, 32, 36, {1, 1}},
    {"plain", 1, 10, 13, 32, 20, {3, 3}},
    {"padded", 2, 9, 7, 32, 33, {3, 3}, 1, 1},
    {"stride", 1, 13, 15, 32, 48, {3, 3}, 2},
    {"stride_padded", 2, 14, 11, 64, 32, {3, 3}, 2, 1},
    {"stride_of_points", 1, 13, 9, 32, 32, {1, 1}, 2},
    {"dilated", 1, 12, 14, 32, 37, {3, 3}, 1, 2, 2},
    {"stride_dilated", 1, 15, 15, 32, 16, {3, 3}, 2, 2, 2},
    {"large_window", 1, 11, 12, 32, 70, {5, 5}, 1, 2, 1, 64},
    {"oblong", 1, 17, 9, 32, 24, {5, 1}, 1, 0},
    {"many_points", 1, 40, 33, 32, 32, {3, 3}, 1, 1},
    {"not_finite", 1, 9, 9, 32, 40, {3, 3}, 1, 0, 1, 32, true},
    {"not_finite_padded", 1, 9, 9, 64, 40, {3, 3}, 2, 1, 1, 64, true},
};

INSTANTIATE_TEST_SUITE_P(Cases, ImagePatchTest,
                         testing::Combine(testing::Values("f32", "f16", "bf16"),
                                          testing::ValuesIn(convolutions)),
                         [](const testing::TestParamInfo<
                             std::tuple<const char *, Convolution>> &info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).name;
                         });

} // namespace
