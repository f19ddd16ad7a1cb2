//===- BlockShapes.cpp - blocks of accumulators in vector registers -------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/BlockShapes.h"

#include "ir/QuantizedWeight.h"

#include <tuple>

using namespace mlir;
using llvm::divideCeilSigned;

namespace anabranch {
namespace kernels {

constexpr BlockShape wideShapes[] = {
    {6, 4, 1.0},  {8, 3, 1.0},  {12, 2, 1.02}, {4, 4, 1.1},   {5, 4, 1.03},
    {7, 3, 1.02}, {6, 3, 1.05}, {8, 2, 1.1},   {2, 4, 1.5},   {1, 4, 2.5},
    {3, 4, 1.25}, {14, 1, 1.3}, {8, 1, 1.5},   {10, 2, 1.05}, {4, 3, 1.15},
    {2, 3, 1.65}, {1, 3, 2.65}};
constexpr BlockShape narrowShapes[] = {
    {6, 2, 1.0}, {4, 3, 1.0}, {5, 2, 1.03}, {4, 2, 1.1}, {3, 2, 1.3},
    {2, 2, 1.6}, {1, 2, 2.5}, {1, 4, 2.2},  {2, 4, 1.5}, {10, 1, 1.2},
    {6, 1, 1.5}, {2, 3, 1.6}, {1, 3, 2.3}};

// Bytes that are widened to 16 bits take two registers for each operand.
constexpr BlockShape wideWidened[] = {{10, 2, 1.0}, {8, 2, 1.0},  {6, 2, 1.05},
                                      {4, 2, 1.2},  {2, 2, 1.6},  {1, 4, 2.2},
                                      {1, 2, 2.5},  {12, 1, 1.2}, {4, 1, 1.6}};
constexpr BlockShape narrowWidened[] = {{4, 2, 1.0}, {3, 2, 1.1}, {2, 2, 1.4},
                                        {8, 1, 1.1}, {4, 1, 1.4}, {1, 2, 2.2}};

// Matrix instructions multiply two rows. Their left vectors stay in registers
// while the right ones pass by.
constexpr BlockShape ofMatrices[] = {
    {8, 3, 1.0}, {12, 2, 1.02}, {6, 4, 1.0}, {10, 2, 1.05}, {4, 4, 1.1},
    {6, 3, 1.1}, {8, 2, 1.1},   {4, 3, 1.2}, {2, 4, 1.5},   {2, 3, 1.5},
    {2, 2, 1.6}, {1, 4, 2.5},   {1, 3, 2.5}, {1, 2, 2.6}};

/// Whether blocks of accumulators can be those of 32 registers.
static bool hasManyRegisters(const native::TargetInfo &target) {
  return target.isa().vectorRegisters() > 16;
}

ArrayRef<BlockShape> shapesFor(const native::TargetInfo &target,
                               const Word &word) {
  if (word.product.isMatrix)
    return ofMatrices;
  if (word.product.int8 && word.product.int8->kind == Int8Dot::Kind::Widened)
    return hasManyRegisters(target) ? ArrayRef(wideWidened)
                                    : ArrayRef(narrowWidened);
  return hasManyRegisters(target) ? ArrayRef(wideShapes)
                                  : ArrayRef(narrowShapes);
}

WantedBlock WantedBlock::of(const Contraction &contraction,
                            const native::TargetInfo &target,
                            const VectorWords &words) {
  WantedBlock wanted{contraction.rowsTogether(),
                     contraction.knownSize(contraction.column)};
  if (words.splitsPanels || words.readsPanels(contraction))
    wanted.vectors = contraction.right.panels->width / words.lanes;
  if (words.codes)
    wanted.vectors = ir::QuantizedWeight::panelColumns / words.lanes;
  wanted.widening =
      words.codes ? Widening::ofCodes() : Widening::of(contraction, words.word);
  wanted.registers = target.isa().vectorRegisters();
  return wanted;
}

/// Rows that a product of an unknown number of them is likely to have: batches
/// of decoding, and whole lines of a matrix.
constexpr int64_t usualRows[] = {8, 16, 32, 64};

/// Rows that blocks of this height compute for each row of the product.
static double shareOfRows(int64_t height, std::optional<int64_t> rows) {
  auto share = [&](int64_t count) {
    return double(divideCeilSigned(count, height) * height) / count;
  };
  if (rows)
    return *rows ? share(*rows) : 1;
  double sum = 0;
  for (int64_t count : usualRows)
    sum += share(count);
  return sum / std::size(usualRows);
}

std::optional<double> costOf(const BlockShape &shape, int64_t lanes,
                             const WantedBlock &wanted) {
  auto [rows, columns, vectors, panels, isEven, widening, registers] = wanted;
  if ((vectors && *vectors % shape.vectors != 0) ||
      (isEven && shape.vectors % 2 != 0))
    return std::nullopt;
  if (panels > 1 &&
      (shape.vectors < 2 ||
       divideCeilSigned(*columns, shape.vectors * lanes) < panels))
    return std::nullopt;
  // One more register has a left element in all its lanes.
  int64_t needed = shape.vectors * (shape.rows + widening.registers) + 1;
  if (widening.instructions && needed > registers)
    return std::nullopt;
  double cost = (shape.cost + widening.instructions / shape.rows) *
                shareOfRows(shape.rows, rows);
  if (columns && *columns) {
    int64_t width = shape.vectors * lanes;
    cost *= double(divideCeilSigned(*columns, width) * width) / *columns;
  }
  return cost;
}

std::optional<BlockShape> chooseShape(ArrayRef<BlockShape> shapes,
                                      int64_t lanes,
                                      const WantedBlock &wanted) {
  std::optional<BlockShape> best;
  double bestCost = 0;
  for (const BlockShape &shape : shapes) {
    std::optional<double> cost = costOf(shape, lanes, wanted);
    if (cost && (!best || *cost < bestCost * 0.999)) {
      best = shape;
      bestCost = *cost;
    }
  }
  return best;
}

std::vector<BlockShape> blockShapes(const Contraction &contraction,
                                    const native::TargetInfo &target) {
  VectorWords words = VectorWords::choose(contraction, target);
  WantedBlock wanted = WantedBlock::of(contraction, target, words);
  std::vector<BlockShape> shapes;
  for (const BlockShape &shape : shapesFor(target, words.word))
    if (auto cost = costOf(shape, words.lanes, wanted))
      shapes.push_back({shape.rows, shape.vectors, *cost});
  llvm::sort(shapes, [](const BlockShape &a, const BlockShape &b) {
    return std::tuple(a.cost, a.rows, a.vectors) <
           std::tuple(b.cost, b.rows, b.vectors);
  });
  return shapes;
}

} // namespace kernels
} // namespace anabranch
