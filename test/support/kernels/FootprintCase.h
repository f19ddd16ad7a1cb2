//===- FootprintCase.h - kernels of FootprintTest ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// For tests only: the kernels that FootprintTest.cpp runs, as text.

#ifndef ANABRANCH_SUPPORT_CODEGEN_FOOTPRINTCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_FOOTPRINTCASE_H

#include "support/kernels/GemmCase.h"

#include <vector>

namespace anabranch {
namespace kernels {

struct FootprintCase {
  std::string name;
  std::string text;           ///< one function @kernel
  std::vector<int64_t> sizes; ///< of the ABI
};

using Words = std::vector<std::pair<std::string, std::string>>;

/// A kernel function. Each pair in `words` replaces its first text by its
/// second.
inline FootprintCase footprintCase(const char *name,
                                   const std::string &signature,
                                   const std::string &body,
                                   const Words &words = {},
                                   std::vector<int64_t> sizes = {}) {
  std::string text = R"mlir(
#id = affine_map<(a, b) -> (a, b)>
#transposed = affine_map<(a, b) -> (b, a)>
#row = affine_map<(a, b) -> (a)>
#column = affine_map<(a, b) -> (b)>
#cube = affine_map<(a, b, c) -> (a, b, c)>
#swapped = affine_map<(a, b, c) -> (b, a, c)>
func.func @kernel)mlir" +
                     signature + " attributes {anabranch.kernel} {" + body +
                     "}\n";
  for (auto &[from, to] : words)
    replaceAll(text, from, to);
  replaceAll(text, "PAR2", R"(iterator_types = ["parallel", "parallel"])");
  replaceAll(text, "PAR3",
             R"(iterator_types = ["parallel", "parallel", "parallel"])");
  replaceAll(text, "RED2", R"(iterator_types = ["parallel", "reduction"])");
  replaceAll(text, "TWICE", R"mlir({
  ^bb0(%in: f32, %out: f32):
    %double = arith.addf %in, %in : f32
    linalg.yield %double : f32 })mlir");
  replaceAll(text, "SUM", R"mlir({
  ^bb0(%left: f32, %right: f32, %out: f32):
    %both = arith.addf %left, %right : f32
    linalg.yield %both : f32 })mlir");
  return {name, text, std::move(sizes)};
}

/// One generic that doubles X, which it reads by the map IN, and returns Y.
inline FootprintCase doubled(const char *name, const char *x, const char *y,
                             const char *in, const char *attributes = "") {
  return footprintCase(
      name, "(%x: XX ATTR) -> YY", R"mlir(
  %e = tensor.empty() : YY
  %y = linalg.generic {indexing_maps = [IN, #id], PAR2} ins(%x : XX) outs(%e : YY) TWICE -> YY
  return %y : YY
)mlir",
      {{"XX", x}, {"YY", y}, {"IN", in}, {"ATTR", attributes}});
}

inline FootprintCase rowBias(const char *name, const char *x,
                             const char *bias) {
  return footprintCase(name, "(%x: XX, %b: BB) -> XX", R"mlir(
  %e = tensor.empty() : XX
  %y = linalg.generic {indexing_maps = [#id, #column, #id], PAR2} ins(%x, %b : XX, BB) outs(%e : XX) SUM -> XX
  return %y : XX
)mlir",
                       {{"XX", x}, {"BB", bias}});
}

inline FootprintCase softmaxCase(const char *name, const char *x,
                                 const char *row, bool dynamic = false,
                                 std::vector<int64_t> sizes = {}) {
  return footprintCase(name, "(%x: XX) -> XX", R"mlir(
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : XX
  %n = tensor.dim %x, %c1 : XX
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty(ONE) : ROW
  %e2 = tensor.empty(TWO) : XX
  %i1 = linalg.fill ins(%ninf : f32) outs(%e1 : ROW) -> ROW
  %i2 = linalg.fill ins(%zero : f32) outs(%e1 : ROW) -> ROW
  %max = linalg.generic {indexing_maps = [#id, #row], RED2} ins(%x : XX) outs(%i1 : ROW) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32 } -> ROW
  %e = linalg.generic {indexing_maps = [#id, #row, #id], PAR2} ins(%x, %max : XX, ROW) outs(%e2 : XX) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %r = math.exp %s : f32
    linalg.yield %r : f32 } -> XX
  %sum = linalg.generic {indexing_maps = [#id, #row], RED2} ins(%e : XX) outs(%i2 : ROW) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32 } -> ROW
  %y = linalg.generic {indexing_maps = [#id, #row, #id], PAR2} ins(%e, %sum : XX, ROW) outs(%e2 : XX) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32 } -> XX
  return %y : XX
)mlir",
                       {{"XX", x},
                        {"ROW", row},
                        {"ONE", dynamic ? "%m" : ""},
                        {"TWO", dynamic ? "%m, %n" : ""}},
                       std::move(sizes));
}

inline FootprintCase product(const char *name, GemmCase c) {
  FootprintCase result{name, kernelText(c), {}};
  replaceAll(result.text, "@product", "@kernel");
  if (!c.dynamic)
    return result;
  for (const std::string &letters :
       {std::string(c.left), std::string(c.right), std::string("n"),
        resultLetters(c), std::string("bmn")})
    for (char letter : letters)
      result.sizes.push_back(sizeOf(c, letter));
  return result;
}

inline FootprintCase attentionCase(const char *name, int64_t length,
                                   int64_t keys, const char *flags) {
  return footprintCase(
      name,
      "(%q: tensor<1x4xLENx16xf32>, %k: tensor<1x2xKEYSx16xf32>, "
      "%v: tensor<1x2xKEYSx16xf32>, %m: tensor<1x1xLENxKEYSxf32>) -> "
      "tensor<1xLENx64xf32>",
      R"mlir(
  %r = anabranch.attention %q, %k, %v mask %m {scale = 0.25 : f64, grouped FLAGS} : (tensor<1x4xLENx16xf32>, tensor<1x2xKEYSx16xf32>, tensor<1x2xKEYSx16xf32>, tensor<1x1xLENxKEYSxf32>) -> tensor<1x4xLENx16xf32>
  %e = tensor.empty() : tensor<1xLENx4x16xf32>
  %t = linalg.generic {
      indexing_maps = [affine_map<(b, l, h, e) -> (b, h, l, e)>,
                       affine_map<(b, l, h, e) -> (b, l, h, e)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r : tensor<1x4xLENx16xf32>) outs(%e : tensor<1xLENx4x16xf32>) TWICE -> tensor<1xLENx4x16xf32>
  %flat = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1xLENx4x16xf32> into tensor<1xLENx64xf32>
  return %flat : tensor<1xLENx64xf32>
)mlir",
      {{"LEN", std::to_string(length)},
       {"KEYS", std::to_string(keys)},
       {"FLAGS", flags}});
}

/// Attention whose lengths calls bind.
inline FootprintCase symbolicAttention(const char *name, int64_t length,
                                       int64_t keys, const char *flags) {
  return footprintCase(name,
                       "(%q: tensor<1x4x?x16xf32>, %k: tensor<1x2x?x16xf32>, "
                       "%v: tensor<1x2x?x16xf32>, %m: tensor<1x1x?x?xf32>) -> "
                       "tensor<1x4x?x16xf32>",
                       R"mlir(
  %r = anabranch.attention %q, %k, %v mask %m {scale = 0.25 : f64, grouped FLAGS} : (tensor<1x4x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x1x?x?xf32>) -> tensor<1x4x?x16xf32>
  return %r : tensor<1x4x?x16xf32>
)mlir",
                       {{"FLAGS", flags}},
                       {length, keys, keys, length, keys, length});
}

/// [64, 1000] and [64, 600] side by side.
inline FootprintCase joined(const char *name) {
  return footprintCase(name,
                       "(%x: tensor<64x1000xf32>, %y: tensor<64x600xf32>) -> "
                       "tensor<64x1600xf32>",
                       R"mlir(
  %e = tensor.empty() : tensor<64x1600xf32>
  %ex = tensor.empty() : tensor<64x1000xf32>
  %ey = tensor.empty() : tensor<64x600xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], PAR2} ins(%x : tensor<64x1000xf32>) outs(%ex : tensor<64x1000xf32>) TWICE -> tensor<64x1000xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], PAR2} ins(%y : tensor<64x600xf32>) outs(%ey : tensor<64x600xf32>) TWICE -> tensor<64x600xf32>
  %a = tensor.insert_slice %p into %e[0, 0] [64, 1000] [1, 1] : tensor<64x1000xf32> into tensor<64x1600xf32>
  %b = tensor.insert_slice %q into %a[0, 1000] [64, 600] [1, 1] : tensor<64x600xf32> into tensor<64x1600xf32>
  return %b : tensor<64x1600xf32>
)mlir");
}

/// x doubled above x, and x with its halves swapped.
inline FootprintCase stacked(const char *name) {
  return footprintCase(name,
                       "(%x: tensor<200x500xf32>) -> (tensor<400x500xf32>, "
                       "tensor<200x500xf32>)",
                       R"mlir(
  %e = tensor.empty() : tensor<400x500xf32>
  %ex = tensor.empty() : tensor<200x500xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], PAR2} ins(%x : tensor<200x500xf32>) outs(%ex : tensor<200x500xf32>) TWICE -> tensor<200x500xf32>
  %a = tensor.insert_slice %p into %e[0, 0] [200, 500] [1, 1] : tensor<200x500xf32> into tensor<400x500xf32>
  %b = tensor.insert_slice %x into %a[200, 0] [200, 500] [1, 1] : tensor<200x500xf32> into tensor<400x500xf32>
  %low = tensor.extract_slice %x[0, 0] [200, 250] [1, 1] : tensor<200x500xf32> to tensor<200x250xf32>
  %high = tensor.extract_slice %x[0, 250] [200, 250] [1, 1] : tensor<200x500xf32> to tensor<200x250xf32>
  %s = tensor.insert_slice %high into %ex[0, 0] [200, 250] [1, 1] : tensor<200x250xf32> into tensor<200x500xf32>
  %t = tensor.insert_slice %low into %s[0, 250] [200, 250] [1, 1] : tensor<200x250xf32> into tensor<200x500xf32>
  %w = linalg.generic {indexing_maps = [#id, #id, #id], PAR2} ins(%t, %x : tensor<200x500xf32>, tensor<200x500xf32>) outs(%ex : tensor<200x500xf32>) SUM -> tensor<200x500xf32>
  return %b, %w : tensor<400x500xf32>, tensor<200x500xf32>
)mlir");
}

/// The middle third of the columns, by heads: [128, 768] to [4, 128, 64].
inline FootprintCase heads(const char *name) {
  return footprintCase(name,
                       "(%x: tensor<128x768xf32>) -> tensor<4x128x64xf32>",
                       R"mlir(
  %s = tensor.extract_slice %x[0, 256] [128, 256] [1, 1] : tensor<128x768xf32> to tensor<128x256xf32>
  %h = tensor.expand_shape %s [[0], [1, 2]] output_shape [128, 4, 64] : tensor<128x256xf32> into tensor<128x4x64xf32>
  %e = tensor.empty() : tensor<4x128x64xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #cube], PAR3} ins(%h : tensor<128x4x64xf32>) outs(%e : tensor<4x128x64xf32>) TWICE -> tensor<4x128x64xf32>
  return %y : tensor<4x128x64xf32>
)mlir");
}

/// Two results of other shapes, which share nothing.
inline FootprintCase groups(const char *name) {
  return footprintCase(name,
                       "(%x: tensor<300x200xf32>, %y: tensor<100000xf32>) -> "
                       "(tensor<300x200xf32>, tensor<100000xf32>)",
                       R"mlir(
  %e = tensor.empty() : tensor<300x200xf32>
  %f = tensor.empty() : tensor<100000xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], PAR2} ins(%x : tensor<300x200xf32>) outs(%e : tensor<300x200xf32>) TWICE -> tensor<300x200xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%y : tensor<100000xf32>) outs(%f : tensor<100000xf32>) TWICE -> tensor<100000xf32>
  return %p, %q : tensor<300x200xf32>, tensor<100000xf32>
)mlir");
}

/// x += y.
inline FootprintCase inPlace(const char *name) {
  return footprintCase(name,
                       "(%x: XX, %y: XX) -> (XX {anabranch.in_place = 0})",
                       R"mlir(
  %e = tensor.empty() : XX
  %r = linalg.generic {indexing_maps = [#id, #id, #id], PAR2} ins(%x, %y : XX, XX) outs(%e : XX) SUM -> XX
  return %r : XX
)mlir",
                       {{"XX", "tensor<200x300xf32>"}});
}

/// Writes one row of each head of a cache.
inline FootprintCase update(const char *name) {
  return footprintCase(
      name,
      "(%c: tensor<4x10x8xf32>, %v: tensor<4x1x8xf32>, %at: index) -> "
      "(tensor<4x10x8xf32> {anabranch.in_place = 0})",
      R"mlir(
  %e = tensor.empty() : tensor<4x1x8xf32>
  %d = linalg.generic {indexing_maps = [#cube, #cube], PAR3} ins(%v : tensor<4x1x8xf32>) outs(%e : tensor<4x1x8xf32>) TWICE -> tensor<4x1x8xf32>
  %r = tensor.insert_slice %d into %c[0, %at, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x10x8xf32>
  return %r : tensor<4x10x8xf32>
)mlir",
      {}, {3});
}

inline FootprintCase scatterCase(const char *name, std::string target,
                                 std::string updates, std::string indices,
                                 std::string at, std::string position) {
  std::string x = "tensor<" + target + "xf32>";
  std::string v = "tensor<" + updates + "xf32>";
  std::string i = "tensor<" + indices + "xi64>";
  return footprintCase(name,
                       "(%x: " + x + ", %i: " + i + ", %v: " + v + ") -> " + x,
                       R"mlir(
  %c0 = arith.constant 0 : index
  %n = arith.constant 50 : index
  %r = anabranch.scatter %v into %x {
  ^bb0(%p: index, %q: index, %cur: f32, %u: f32):
    %j = tensor.extract %i[)mlir" +
                           at + "] : " + i + R"mlir(
    %k = arith.index_cast %j : i64 to index
    %ok = arith.cmpi ult, %k, %n : index
    anabranch.check %ok, 1
    %s = arith.select %ok, %k, %c0 : index
    %new = arith.addf %cur, %u : f32
    anabranch.yield )mlir" +
                           position + R"mlir(, %new : index, index, f32
  } : )mlir" + v + " into " +
                           x + " -> " + x + "\n  return %r : " + x + "\n");
}

/// Rows of a table, chosen by data.
inline FootprintCase gather(const char *name) {
  return footprintCase(
      name,
      "(%x: tensor<50x80xf32>, %i: tensor<900xi64>) -> tensor<900x80xf32>",
      R"mlir(
  %e = tensor.empty() : tensor<900x80xf32>
  %r = linalg.generic {indexing_maps = [#row, #id], PAR2} ins(%i : tensor<900xi64>) outs(%e : tensor<900x80xf32>) {
  ^bb0(%j: i64, %o: f32):
    %k = arith.index_cast %j : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%k, %c] : tensor<50x80xf32>
    linalg.yield %v : f32 } -> tensor<900x80xf32>
  return %r : tensor<900x80xf32>
)mlir");
}

inline FootprintCase scan(const char *name) {
  return footprintCase(name, "(%x: tensor<70x900xf32>) -> tensor<70x900xf32>",
                       R"mlir(
  %zero = arith.constant 0.0 : f32
  %r = anabranch.scan %x, %zero along 1 {
  ^bb0(%sum: f32, %a: f32):
    %s = arith.addf %sum, %a : f32
    anabranch.yield %s : f32
  } : tensor<70x900xf32>, f32 -> tensor<70x900xf32>
  return %r : tensor<70x900xf32>
)mlir");
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_FOOTPRINTCASE_H
