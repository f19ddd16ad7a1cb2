//===- GemmCase.h - matrix products for tests -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products that tests run or cut up, as text of kernels.

#ifndef ANABRANCH_SUPPORT_CODEGEN_GEMMCASE_H
#define ANABRANCH_SUPPORT_CODEGEN_GEMMCASE_H

#include "support/kernels/KernelText.h"

#include <cstdint>
#include <string>

namespace anabranch {
namespace kernels {

/// A product [batch, m, n] with the epilogue relu(x + bias[n]). The letters
/// give the order in which each operand is stored. The result of i8 and u8 is
/// i32. If `width` is set, the right operand, whose letters are "nk" or "bnk",
/// lies in panels.
struct GemmCase {
  const char *name;
  int64_t batch, m, n, k;
  const char *left, *right; ///< "bmk", "kn", ...
  const char *type = "f32";
  bool dynamic = false; ///< all sizes symbolic
  int64_t width = 0;    ///< of a panel
  int64_t kPack = 1;    ///< depths side by side in a panel
  /// The given part of the blocking, as text of BlockingParameters.
  const char *blocking = "";
  /// The type of a result that is not narrowed to that of the operands.
  const char *result = "";
  /// Of a left operand of the letters "mk": each row lies in so many equal
  /// runs, [head][m][k / heads], as attention leaves it.
  int64_t heads = 1;

  int64_t panels() const { return (n + width - 1) / width; }
  int64_t words() const { return (k + kPack - 1) / kPack; }
};

/// The type of the sums, and of the result.
inline std::string sumType(const GemmCase &c) {
  std::string type = c.type;
  if (type == "f64" || type == "i64")
    return type;
  return type[0] == 'f' || type[0] == 'b' ? "f32" : "i32";
}
inline bool isInteger(const GemmCase &c) { return sumType(c)[0] == 'i'; }
inline std::string resultType(const GemmCase &c) {
  if (*c.result)
    return c.result;
  return isInteger(c) ? sumType(c) : c.type;
}

inline int64_t sizeOf(const GemmCase &c, char letter) {
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

inline std::string resultLetters(const GemmCase &c) {
  return c.left[0] == 'b' || c.right[0] == 'b' ? "bmn" : "mn";
}

inline std::string tensorType(const GemmCase &c, const std::string &letters,
                              const std::string &type) {
  std::string text = "tensor<";
  for (char letter : letters)
    text += (c.dynamic ? "?" : std::to_string(sizeOf(c, letter))) + "x";
  return text + type + ">";
}

inline std::string mapOf(const std::string &letters) {
  std::string text = "affine_map<(LOOPS) -> (";
  for (size_t i = 0; i < letters.size(); ++i)
    text += std::string(i ? ", " : "") + letters[i];
  return text + ")>";
}

/// Views of a right operand in panels that equal the operand, as PackConstants
/// makes them.
inline std::string viewText(const GemmCase &c) {
  std::string text = R"mlir(
  %unpacked = tensor.empty() : TRANSPOSED
  %transposed = linalg.generic {
      indexing_maps = [affine_map<(BPp, w, d H) -> (BPp, d, w H)>,
                       affine_map<(BPp, w, d H) -> (BPp, w, d H)>],
      iterator_types = [PARALLEL]}
      ins(%packed : PANELS) outs(%unpacked : TRANSPOSED) {
  ^bb0(%x: TYPE, %o: TYPE):
    linalg.yield %x : TYPE
  } -> TRANSPOSED
  %flat = tensor.collapse_shape %transposed GROUPS : TRANSPOSED into FLAT
  %right = tensor.extract_slice %flat[ZEROS][SIZES][ONES] : FLAT to RIGHT
)mlir";
  bool batched = c.left[0] == 'b', pairs = c.kPack > 1;
  std::string b = batched ? std::to_string(c.batch) : "", x = "x";
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string half = pairs ? x + number(c.kPack) : "";
  std::string outer = batched ? b + x : "";
  replaceAll(text, "BPp", batched ? "b, p" : "p");
  replaceAll(text, " H", pairs ? ", h" : "");
  std::string loops = batched ? R"("parallel", )" : "";
  for (int i = 0; i < (pairs ? 4 : 3); ++i)
    loops += i ? R"(, "parallel")" : R"("parallel")";
  replaceAll(text, "PARALLEL", loops);
  replaceAll(text, "TRANSPOSED",
             "tensor<" + outer + number(c.panels()) + x + number(c.width) + x +
                 number(c.words()) + half + x + c.type + ">");
  replaceAll(text, "FLAT",
             "tensor<" + outer + number(c.panels() * c.width) + x +
                 number(c.words() * c.kPack) + x + c.type + ">");
  replaceAll(text, "GROUPS",
             batched ? (pairs ? "[[0], [1, 2], [3, 4]]" : "[[0], [1, 2], [3]]")
                     : (pairs ? "[[0, 1], [2, 3]]" : "[[0, 1], [2]]"));
  replaceAll(text, "ZEROS", batched ? "0, 0, 0" : "0, 0");
  replaceAll(text, "ONES", batched ? "1, 1, 1" : "1, 1");
  replaceAll(text, "SIZES",
             (batched ? b + ", " : "") + number(c.n) + ", " + number(c.k));
  return text;
}

inline std::string panelsType(const GemmCase &c) {
  std::string text = "tensor<";
  if (c.left[0] == 'b')
    text += std::to_string(c.batch) + "x";
  for (int64_t size : {c.panels(), c.words(), c.width})
    text += std::to_string(size) + "x";
  std::string pair = c.kPack > 1 ? std::to_string(c.kPack) + "x" : "";
  return text + pair + c.type + ">";
}

inline std::string headsType(const GemmCase &c,
                             std::initializer_list<int64_t> sizes) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + c.type + ">";
}

/// Views of a left operand of several heads that equal the operand.
inline std::string headsText(const GemmCase &c) {
  std::string text = R"mlir(
  %space = tensor.empty() : ROWS
  %rows = linalg.generic {
      indexing_maps = [affine_map<(m, h, d) -> (h, m, d)>,
                       affine_map<(m, h, d) -> (m, h, d)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%heads : HEADS) outs(%space : ROWS) {
  ^bb0(%x: TYPE, %o: TYPE):
    linalg.yield %x : TYPE
  } -> ROWS
  %left = tensor.collapse_shape %rows [[0], [1, 2]] : ROWS into LEFT
)mlir";
  replaceAll(text, "ROWS", headsType(c, {c.m, c.heads, c.k / c.heads}));
  return text;
}

inline std::string kernelText(const GemmCase &c) {
  std::string type = c.type[0] == 'u' ? "i8" : c.type;
  std::string sum = sumType(c);
  bool widens = type != sum, narrows = resultType(c) != sum;
  std::string text = R"mlir(
func.func @product(%left: LEFT, %packed: PANELS, %bias: BIAS SIZES) -> RESULT
    attributes {anabranch.kernel, anabranch.blocking = "GIVEN"} {
  VIEWS
  JOINED
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
  ^bb0(%x: SUM, %y: SUM, %o: MADE):
    %u = arith.addf %x, %y : SUM
    %v = arith.maximumf %u, %zero : SUM
    NARROW
  } -> RESULT
  return %result : RESULT
})mlir";
  replaceAll(text, "GIVEN", c.blocking);
  replaceAll(text, "WIDEN",
             widens ? "%a = arith.extf %x : TYPE to SUM\n"
                      "%c = arith.extf %y : TYPE to SUM"
                    : "");
  if (isInteger(c)) {
    replaceAll(text, "arith.extf",
               c.type[0] == 'u' ? "arith.extui" : "arith.extsi");
    replaceAll(text, "arith.mulf", "arith.muli");
    replaceAll(text, "arith.addf", "arith.addi");
    replaceAll(text, "arith.maximumf", "arith.maxsi");
    replaceAll(text, "constant 0.0", "constant 0");
  }
  replaceAll(text, "NARROW",
             narrows ? "%w = arith.truncf %v : SUM to TYPE\n"
                       "linalg.yield %w : TYPE"
                     : "linalg.yield %v : MADE");
  if (!widens) {
    replaceAll(text, "%a, %c", "%x, %y");
  }
  if (c.width == 0)
    replaceAll(text, "%packed: PANELS", "%right: RIGHT");
  replaceAll(text, "JOINED", c.heads > 1 ? headsText(c) : "");
  if (c.heads > 1)
    replaceAll(text, "@product(%left: LEFT", "@product(%heads: HEADS");
  replaceAll(text, "HEADS", headsType(c, {c.heads, c.m, c.k / c.heads}));
  replaceAll(text, "VIEWS", c.width ? viewText(c) : "");
  replaceAll(text, "PANELS", c.width ? panelsType(c) : "");
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
  replaceAll(text, "RESULT", tensorType(c, resultLetters(c), resultType(c)));
  replaceAll(text, "ACC", tensorType(c, resultLetters(c), sum));
  replaceAll(text, "SIZES",
             c.dynamic ? ", %db: index, %dm: index, %dn: index" : "");
  replaceAll(text, "DIMS", c.dynamic ? "%db, %dm, %dn" : "");
  replaceAll(text, "TYPE", type);
  replaceAll(text, "MADE", resultType(c));
  replaceAll(text, "SUM", sum);
  return text;
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_GEMMCASE_H
