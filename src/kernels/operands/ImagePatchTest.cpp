//===- ImagePatchTest.cpp - convolutions of patches against loops ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/AmxEmulation.h"
#include "support/kernels/ChosenProduct.h"
#include "support/kernels/GemmNumbers.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

bool areBytes(const std::string &type) { return type == "i8" || type == "u8"; }

/// A convolution of images with channels last by a weight in panels.
struct Convolution {
  const char *name;
  int64_t images, height, columns, channels, filters;
  int64_t taps[2];
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t width = 32; ///< of a panel
  /// A few numbers are infinite or NaN.
  bool isSpecial = false;
  /// Of a volume, and their taps; 0: the images have two dimensions.
  int64_t slices = 0, tapsOfSlices = 1;
  /// `channels` and `filters` are those of each group.
  int64_t groups = 1;

  bool isGrouped() const { return groups > 1; }
  bool isVolume() const { return slices > 0; }
  int64_t pointsOf(int64_t size, int64_t tapCount) const {
    int64_t window = (tapCount - 1) * dilation + 1;
    return (size + 2 * padding - window) / stride + 1;
  }
  int64_t sizeOf(int dim) const { return dim ? columns : height; }
  int64_t points(int dim) const { return pointsOf(sizeOf(dim), taps[dim]); }
  int64_t pointsOfSlices() const {
    return isVolume() ? pointsOf(slices, tapsOfSlices) : 1;
  }
  int64_t rows() const {
    return images * pointsOfSlices() * points(0) * points(1);
  }
  int64_t tapCount() const { return tapsOfSlices * taps[0] * taps[1]; }
  int64_t depth() const { return tapCount() * channels; }
  /// Whether the windows are the rows of the image as a matrix.
  bool isMatrix() const {
    return tapCount() == 1 && stride == 1 && padding == 0;
  }
  /// Whether steps of AMX registers are whole along the channels.
  bool fillsRegisters() const { return channels % 32 == 0; }
  int64_t elements() const {
    return images * std::max<int64_t>(slices, 1) * height * columns * groups *
           channels;
  }
  /// The sizes of all dimensions between images and channels.
  std::string sizes(int64_t ofSlices, int64_t ofRows, int64_t ofColumns,
                    const char *between) const {
    std::string text = isVolume() ? std::to_string(ofSlices) + between : "";
    return text + std::to_string(ofRows) + between + std::to_string(ofColumns);
  }
  /// [images, sizes..., last...] of a type.
  std::string tensor(const std::string &sizes, const std::string &last,
                     const char *type) const {
    return "tensor<" + std::to_string(images) + "x" + sizes + "x" + last + "x" +
           type + ">";
  }
  /// The product of its windows and its weight.
  GemmCase product(const char *type) const {
    int64_t kPack = std::string(type) == "bf16" ? 2 : 1;
    if (areBytes(type)) {
      // The weight is signed.
      type = "i8";
      kPack = 4;
    }
    return {name,
            groups,
            rows(),
            filters,
            depth(),
            isGrouped() ? "bmk" : "mk",
            isGrouped() ? "bnk" : "nk",
            type,
            false,
            width,
            kPack};
  }
};

/// What images of bytes have around them. Others have zeros there.
constexpr int outsideOfBytes = -93;

/// Windows of several taps, and of one.
constexpr const char *severalTaps = R"mlir(
  %windows = linalg.generic {
      indexing_maps = [affine_map<(b, ROWS, TAPS, c) -> (b, PLACES, CHANNEL)>,
                       affine_map<(b, ROWS, TAPS, c) -> (b, ROWS, TAPS, c)>],
      iterator_types = [PARALLEL_WINDOWS]}
      ins(SOURCE) outs(%view : WINDOWS)
      attrs = {anabranch.windows} {
  ^bb0(%x: TYPE, %o: TYPE):
    linalg.yield %x : TYPE
  } -> WINDOWS
  %left = tensor.collapse_shape %windows [GROUPS]
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
  %zero = arith.constant OUTSIDE : TYPE
  %empty_border = tensor.empty() : PADDED
  %zeros = linalg.fill ins(%zero : TYPE) outs(%empty_border : PADDED) -> PADDED
  %padded = tensor.insert_slice %image into
      %zeros[OFFSETS] [SIZES] [ONES] : IMAGE into PADDED)mlir";

std::string textOf(const Convolution &c, const char *type) {
  std::string text = R"mlir(
func.func @convolution(%image: IMAGE, %packed: PANELS) -> SUMS
    attributes {anabranch.kernel} {
  BORDER
  %view = tensor.empty() : VIEW
  WINDOWED
  VIEWS
  %start = arith.constant ZERO : SUM
  %empty = tensor.empty() : SUMS
  %init = linalg.fill ins(%start : SUM) outs(%empty : SUMS) -> SUMS
  %product = linalg.generic {
      indexing_maps = [affine_map<(b, ROWS, n, k) -> (b, ROWS, k)>,
                       affine_map<(b, ROWS, n, k) -> (GROUP n, k)>,
                       affine_map<(b, ROWS, n, k) -> (b, ROWS, n)>],
      iterator_types = [PARALLEL_PRODUCT, "reduction"]}
      ins(%left, %right : LEFT, RIGHT) outs(%init : SUMS) {
  ^bb0(%x: TYPE, %y: TYPE, %s: SUM):
    WIDEN
    %p = arith.MUL %a, %c : SUM
    %t = arith.ADD %s, %p : SUM
    linalg.yield %t : SUM
  } -> SUMS
  return %product : SUMS
})mlir";
  GemmCase product = c.product(type);
  int64_t high = c.points(0), wide = c.points(1);
  auto along = [&](const char *point, const char *tap) {
    return std::string(point) + " * " + std::to_string(c.stride) + " + " + tap +
           " * " + std::to_string(c.dilation);
  };
  bool isUnsigned = std::string(type) == "u8";
  bool hasBytes = areBytes(type);
  if (hasBytes)
    type = "i8";
  std::string sum = hasBytes ? "i32" : "f32";
  replaceAll(text, "WIDEN",
             std::string(type) == "f32"
                 ? ""
                 : "%a = arith.LEFT_EXT %x : TYPE to SUM\n"
                   "%c = arith.EXT %y : TYPE to SUM");
  replaceAll(text, "LEFT_EXT", isUnsigned ? "extui" : "EXT");
  replaceAll(text, "EXT", hasBytes ? "extsi" : "extf");
  replaceAll(text, "MUL", hasBytes ? "muli" : "mulf");
  replaceAll(text, "ADD %", hasBytes ? "addi %" : "addf %");
  replaceAll(text, "ZERO", hasBytes ? "0" : "0.0");
  if (std::string(type) == "f32")
    replaceAll(text, "%a, %c", "%x, %y");
  bool hasTaps = c.tapCount() > 1, isVolume = c.isVolume();
  auto parallel = [](int count) {
    std::string types = "\"parallel\"";
    for (int i = 1; i < count; ++i)
      types += ", \"parallel\"";
    return types;
  };
  replaceAll(text, "WINDOWED", hasTaps ? severalTaps : oneTap);
  replaceAll(text, "= tensor.empty() : VIEW",
             hasTaps ? "= tensor.empty() : WINDOWS"
                     : "= tensor.empty() : LEFT");
  bool isGrouped = c.isGrouped();
  replaceAll(text, "PARALLEL_WINDOWS",
             parallel((isVolume ? 8 : 6) + isGrouped));
  replaceAll(text, "PARALLEL_PRODUCT",
             parallel((isVolume ? 5 : 4) + isGrouped));
  std::string kept = isVolume ? "[0], [1], [2], [3]" : "[0], [1], [2]";
  int first = isVolume ? 4 : 3, last = isVolume ? 7 : 5;
  if (isGrouped)
    kept += ", [" + std::to_string(first) + "]";
  std::string joined;
  for (int dim = first + isGrouped; dim <= last + isGrouped; ++dim)
    joined += (joined.empty() ? "" : ", ") + std::to_string(dim);
  replaceAll(text, "GROUPS", kept + ", [" + joined + "]");
  replaceAll(text, "ROWS", isGrouped ? "POINTS, g" : "POINTS");
  replaceAll(text, "GROUP ", isGrouped ? "g, " : "");
  replaceAll(text, "CHANNEL",
             isGrouped ? "g * " + std::to_string(c.channels) + " + c" : "c");
  replaceAll(text, "POINTS", isVolume ? "z, y, x" : "y, x");
  replaceAll(text, "TAPS", isVolume ? "h, i, j" : "i, j");
  replaceAll(text, "PLACES", isVolume ? "SLICE, ROW, COLUMN" : "ROW, COLUMN");
  replaceAll(text, "STEP", std::to_string(c.stride));
  replaceAll(text, "SOURCE", c.padding ? "%padded : PADDED" : "%image : IMAGE");
  replaceAll(text, "BORDER", c.padding ? border : "");
  replaceAll(text, "OUTSIDE",
             hasBytes ? std::to_string(outsideOfBytes) : "0.0");
  replaceAll(text, "VIEWS", viewText(product));
  replaceAll(text, "PANELS", panelsType(product));
  replaceAll(text, "RIGHT", tensorType(product, product.right, type));
  std::string points = c.sizes(c.pointsOfSlices(), high, wide, "x");
  if (isGrouped)
    points += "x" + std::to_string(c.groups);
  std::string channels = std::to_string(c.groups * c.channels);
  int64_t border = 2 * c.padding;
  replaceAll(text, "LEFT", c.tensor(points, std::to_string(c.depth()), type));
  replaceAll(text, "SUMS",
             c.tensor(points, std::to_string(c.filters), sum.c_str()));
  replaceAll(text, "SUM", sum);
  replaceAll(
      text, "IMAGE",
      c.tensor(c.sizes(c.slices, c.height, c.columns, "x"), channels, type));
  replaceAll(text, "PADDED",
             c.tensor(c.sizes(c.slices + border, c.height + border,
                              c.columns + border, "x"),
                      channels, type));
  std::string taps = c.sizes(c.tapsOfSlices, c.taps[0], c.taps[1], "x");
  replaceAll(text, "WINDOWS",
             c.tensor(points, taps + "x" + std::to_string(c.channels), type));
  replaceAll(text, "SIZES",
             std::to_string(c.images) + ", " +
                 c.sizes(c.slices, c.height, c.columns, ", ") + ", " +
                 channels);
  replaceAll(text, "OFFSETS",
             "0, " + c.sizes(c.padding, c.padding, c.padding, ", ") + ", 0");
  replaceAll(text, "ONES", "1, " + c.sizes(1, 1, 1, ", ") + ", 1");
  replaceAll(text, "SLICE", along("z", "h"));
  replaceAll(text, "ROW", along("y", "i"));
  replaceAll(text, "COLUMN", along("x", "j"));
  replaceAll(text, "TYPE", type);
  return text;
}

/// The windows of a group of an image, with a number around it, as a matrix.
std::vector<double> windowsOf(const Convolution &c,
                              const std::vector<double> &image,
                              double outside = 0, int64_t group = 0) {
  std::vector<double> windows;
  int64_t slices = std::max<int64_t>(c.slices, 1);
  int64_t slicePadding = c.isVolume() ? c.padding : 0;
  auto at = [&](int64_t b, int64_t z, int64_t y, int64_t x, int64_t channel) {
    bool isInside = z >= 0 && z < slices && y >= 0 && y < c.height && x >= 0 &&
                    x < c.columns;
    int64_t point = ((b * slices + z) * c.height + y) * c.columns + x;
    int64_t place = point * c.groups + group;
    return isInside ? image[place * c.channels + channel] : outside;
  };
  auto place = [&](int64_t point, int64_t tap, int64_t padding) {
    return point * c.stride + tap * c.dilation - padding;
  };
  int64_t perImage = c.rows() / c.images, perSlice = c.points(0) * c.points(1);
  for (int64_t row = 0; row < c.rows(); ++row)
    for (int64_t tap = 0; tap < c.tapCount(); ++tap)
      for (int64_t channel = 0; channel < c.channels; ++channel)
        windows.push_back(
            at(row / perImage,
               place(row % perImage / perSlice, tap / (c.taps[0] * c.taps[1]),
                     slicePadding),
               place(row % perSlice / c.points(1), tap / c.taps[1] % c.taps[0],
                     c.padding),
               place(row % c.points(1), tap % c.taps[1], c.padding), channel));
  return windows;
}

/// Compares sums of a group with f64, or with f32 where that is not finite.
void expectSums(const float *sums, const std::vector<double> &left,
                const std::vector<double> &right, const GemmCase &c,
                int64_t group) {
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = 0; n < c.n; ++n) {
      double exact = 0, size = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        double product = left[m * c.k + k] * right[(group * c.n + n) * c.k + k];
        exact += product;
        size += std::fabs(product);
      }
      float sum = sums[(m * c.batch + group) * c.n + n];
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
    : public testing::TestWithParam<
          std::tuple<const char *, const char *, Convolution>> {};

/// Checks that the plan for AMX is the one that the test is about.
void expectLayout(const ProductLayout &layout, const std::string &type,
                  const Convolution &c) {
  // Parts are always copied.
  bool isInPlace = type == "bf16" && c.isMatrix();
  ASSERT_EQ(layout.left.patch.has_value(), !isInPlace);
  ASSERT_EQ(layout.left.isCopied(), !isInPlace);
  ASSERT_EQ(layout.usesTileRegisters(), type == "bf16" || c.fillsRegisters());
  if (layout.usesTileRegisters())
    EXPECT_EQ(layout.steps.parts, type == "f32" ? 3 : type == "f16" ? 2 : 1);
}

TEST_P(ImagePatchTest, SumsAreAsExactAsOfF32) {
  const auto &[targetName, typeName, c] = GetParam();
  std::string type = typeName;
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(targetName));
  bool hasTiles = target.isa().has(native::Multiply::TileBF16);
  // AMX then pays for images of any size, and so do patches for vectors.
  bool isVector = !hasTiles || (type == "f32" && !c.fillsRegisters());
  for (native::Multiply multiply :
       {native::Multiply::FmaF32, native::Multiply::DotBF16})
    target.model.rates[int(multiply)] = isVector ? 1e6 : 1e-6;
  std::string text = textOf(c, typeName);
  native::ParsedKernel parsed(text);
  ASSERT_TRUE(parsed) << text;
  ProductLayout layout = ChosenProduct(parsed.function(), target).layout;
  if (hasTiles)
    expectLayout(layout, type, c);
  else if (type == "f32" && !c.fillsRegisters())
    ASSERT_TRUE(layout.left.patch);
  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError()) << text;
  auto emulation = AmxEmulation::of(target);
  if (!native::runs(target) && !emulation)
    GTEST_SKIP() << "this processor lacks what the target needs";
  GemmCase product = c.product(typeName);
  Numbers image = Numbers::reals(c.elements(), type, 1);
  Numbers weight = Numbers::reals(c.groups * c.filters * c.depth(), type, 2);
  if (c.isSpecial) {
    image.set(image.values.size() / 2, type, INFINITY);
    image.set(image.values.size() - 1, type, -INFINITY);
    weight.set(c.depth() + 1, type, NAN);
    weight.set(7 * c.depth(), type, INFINITY);
  }
  for (auto side :
       {native::GuardedMemory::Side::End, native::GuardedMemory::Side::Begin}) {
    Guarded imageMemory(image.bytes, side);
    Guarded weightMemory(rightBytes(product, weight), side);
    native::GuardedMemory sums(
        product.batch * product.m * product.n * sizeof(float), side);
    ASSERT_EQ(library->run(
                  "convolution",
                  {imageMemory.data(), weightMemory.data(), sums.data()}, {}),
              0);
    EXPECT_TRUE(sums.surroundingsAreIntact());
    for (int64_t group = 0; group < c.groups; ++group)
      expectSums(reinterpret_cast<const float *>(sums.data()),
                 windowsOf(c, image.values, 0, group), weight.values, product,
                 group);
  }
}

class BytesOfImagesTest : public ImagePatchTest {};

TEST_P(BytesOfImagesTest, SumsAreExact) {
  const auto &[targetName, typeName, c] = GetParam();
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(targetName));
  // AMX then pays for images of any size.
  target.model.rates[int(native::Multiply::DotInt8)] = 1e-6;
  auto library = KernelLibrary::fromText(textOf(c, typeName), target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  auto emulation = AmxEmulation::of(target);
  if (!native::runs(target) && !emulation)
    GTEST_SKIP() << "this processor lacks what the target needs";
  GemmCase product = c.product(typeName);
  Numbers image(c.elements(), typeName, 1);
  Numbers weight(c.filters * c.depth(), "i8", 2);
  bool isUnsigned = std::string(typeName) == "u8";
  std::vector<double> windows =
      windowsOf(c, image.values, outsideOfBytes + (isUnsigned ? 256 : 0));
  Guarded imageMemory(image.bytes, native::GuardedMemory::Side::End);
  Guarded weightMemory(rightBytes(product, weight),
                       native::GuardedMemory::Side::End);
  native::GuardedMemory sums(product.m * product.n * sizeof(int32_t),
                             native::GuardedMemory::Side::End);
  ASSERT_EQ(library->run("convolution",
                         {imageMemory.data(), weightMemory.data(), sums.data()},
                         {}),
            0);
  EXPECT_TRUE(sums.surroundingsAreIntact());
  const auto *found = reinterpret_cast<const int32_t *>(sums.data());
  for (int64_t m = 0; m < product.m; ++m)
    for (int64_t n = 0; n < product.n; ++n) {
      double exact = 0;
      for (int64_t k = 0; k < product.k; ++k)
        exact += windows[m * product.k + k] * weight.values[n * product.k + k];
      ASSERT_EQ(found[m * product.n + n], exact) << m << ", " << n;
    }
}

/// AMX copies whole windows of a group.
TEST(ImagePatch, TileRegistersReadNoneOfAGroup) {
  const Convolution c{"c", 1, 28, 28,    64, 64, {3, 3}, 1,
                      1,   1, 32, false, 0,  1,  2};
  native::ParsedKernel parsed(textOf(c, "bf16"));
  ASSERT_TRUE(parsed);
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("amx"));
  ProductLayout layout = ChosenProduct(parsed.function(), target).layout;
  EXPECT_TRUE(layout.usesTileRegisters());
  EXPECT_FALSE(layout.left.patch);
}

/// Copies of whole windows cost the less the more results share them, and the
/// numbers between rows of a small image cost more.
TEST(ImagePatch, VectorsReadOneForFewResultsOfLargeImages) {
  const Convolution few{"few", 1, 56, 56, 16, 16, {3, 3}, 1, 1, 1, 16};
  const Convolution many{"many", 1, 14, 14, 128, 256, {3, 3}, 1, 1};
  for (const char *name : {"avx512", "haswell", "znver4"})
    for (const Convolution &c : {few, many}) {
      native::ParsedKernel parsed(textOf(c, "f32"));
      ASSERT_TRUE(parsed);
      native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
      ChosenProduct plan(parsed.function(), target);
      EXPECT_EQ(plan.layout.left.patch.has_value(), c.channels == few.channels)
          << name << ", " << c.name;
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

/// Their runs of channels do not fill registers, or they are volumes.
const Convolution others[] = {
    {"colours", 2, 12, 33, 3, 20, {3, 3}, 2, 0},
    {"large_window_of_colours", 1, 15, 31, 3, 40, {7, 7}, 2, 3},
    {"squares_of_colours", 1, 12, 56, 3, 48, {4, 4}, 4},
    {"few_channels", 2, 9, 14, 16, 16, {3, 3}, 1, 1, 1, 16},
    {"few_channels_dilated", 1, 13, 17, 8, 32, {3, 3}, 1, 2, 2},
    {"not_finite_colours", 1, 9, 14, 3, 32, {3, 3}, 1, 1, 1, 32, true},
    {"volume", 1, 7, 12, 3, 16, {3, 3}, 1, 1, 1, 16, false, 5, 3},
    {"volumes", 2, 6, 9, 16, 32, {3, 3}, 2, 1, 1, 32, false, 6, 3},
    {"volume_of_channels", 1, 5, 8, 32, 40, {2, 3}, 1, 0, 2, 32, false, 6, 3},
};

std::string
nameOf(const testing::TestParamInfo<ImagePatchTest::ParamType> &info) {
  return native::testNameOf({std::get<0>(info.param), std::get<1>(info.param),
                             std::get<2>(info.param).name});
}

/// A patch has the channels of one group.
const Convolution grouped[] = {
    {"groups", 1, 9, 14, 16, 24, {3, 3}, 1, 1, 1, 32, false, 0, 1, 3},
    {"groups_strided", 2, 13, 15, 24, 32, {3, 3}, 2, 1, 1, 32, false, 0, 1, 2},
    {"few", 1, 12, 17, 3, 16, {5, 3}, 2, 2, 1, 16, false, 0, 1, 4},
    {"dilated", 1, 12, 14, 8, 40, {3, 3}, 1, 2, 2, 32, false, 0, 1, 2},
    {"dilated_strided", 1, 15, 16, 8, 8, {3, 3}, 2, 2, 2, 16, false, 0, 1, 5},
    {"volume", 1, 7, 12, 8, 16, {3, 3}, 1, 1, 1, 16, false, 5, 3, 2},
};

INSTANTIATE_TEST_SUITE_P(Cases, ImagePatchTest,
                         testing::Combine(testing::Values("amx"),
                                          testing::Values("f32", "f16", "bf16"),
                                          testing::ValuesIn(convolutions)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(FewChannels, ImagePatchTest,
                         testing::Combine(testing::Values("amx", "avx512",
                                                          "avx2", "portable",
                                                          "neoverse-v1"),
                                          testing::Values("f32", "bf16"),
                                          testing::ValuesIn(others)),
                         nameOf);

INSTANTIATE_TEST_SUITE_P(Grouped, ImagePatchTest,
                         testing::Combine(testing::Values("avx512", "avx2",
                                                          "portable",
                                                          "neoverse-v1"),
                                          testing::Values("f32", "bf16"),
                                          testing::ValuesIn(grouped)),
                         nameOf);

/// Those whose numbers are finite.
std::vector<Convolution> ofBytes() {
  std::vector<Convolution> found;
  for (const Convolution &c : convolutions)
    found.push_back(c);
  for (const Convolution &c : others)
    found.push_back(c);
  llvm::erase_if(found, [](const Convolution &c) { return c.isSpecial; });
  return found;
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, BytesOfImagesTest,
    testing::Combine(testing::Values("amx", "avx512vnni", "avxvnni", "avx512",
                                     "avx2", "portable", "neoverse-v1"),
                     testing::Values("i8", "u8"), testing::ValuesIn(ofBytes())),
    nameOf);

} // namespace
