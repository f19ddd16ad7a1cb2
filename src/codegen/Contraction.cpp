//===- Contraction.cpp - what a contraction kernel computes ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/Contraction.h"

#include "codegen/Reads.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

std::optional<int64_t> Contraction::knownSize(unsigned loop) const {
  linalg::GenericOp generic = op;
  int64_t size = generic.getStaticLoopRanges()[loop];
  if (ShapedType::isDynamic(size))
    return std::nullopt;
  return size;
}

std::optional<int64_t> Contraction::knownSize(ArrayRef<unsigned> loops) const {
  int64_t product = 1;
  for (unsigned loop : loops) {
    auto size = knownSize(loop);
    if (!size)
      return std::nullopt;
    product *= *size;
  }
  return product;
}

namespace {

/// Follows `value` through a widening to a block argument.
bool matchOperand(Block &body, Value value, Operation *&widening,
                  unsigned &number) {
  if (auto extend = value.getDefiningOp<arith::ExtFOp>()) {
    widening = extend;
    value = extend.getIn();
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &body)
    return false;
  number = argument.getArgNumber();
  return true;
}

/// Matches a body that adds the product of two inputs to the output.
bool matchBody(Contraction &c) {
  Block &body = c.op.getRegion().front();
  if (c.op.getNumDpsInputs() != 2 || c.op.getNumDpsInits() != 1)
    return false;
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!sum)
    return false;
  Value accumulator = body.getArgument(2);
  Value other;
  if (sum.getLhs() == accumulator)
    other = sum.getRhs();
  else if (sum.getRhs() == accumulator)
    other = sum.getLhs();
  else
    return false;
  auto product = other.getDefiningOp<arith::MulFOp>();
  if (!product ||
      !matchOperand(body, product.getLhs(), c.left.cast, c.left.number) ||
      !matchOperand(body, product.getRhs(), c.right.cast, c.right.number) ||
      c.left.number == c.right.number || c.left.number > 1 ||
      c.right.number > 1)
    return false;
  c.element = accumulator.getType();
  return c.element.isF32() || c.element.isF64();
}

/// Finds the role of each loop; swaps the operands if that gives the columns a
/// loop, or the loop that is contiguous in the product.
bool assignLoops(Contraction &c, std::string &why) {
  auto dims = linalg::inferContractionDims(c.op);
  if (failed(dims)) {
    why = "it is no contraction";
    return false;
  }
  SmallVector<unsigned> m(dims->m.begin(), dims->m.end());
  SmallVector<unsigned> n(dims->n.begin(), dims->n.end());
  if (c.left.number != 0)
    std::swap(c.left, c.right);
  AffineMap output = c.op.getIndexingMapsArray()[2];
  unsigned last = output.getNumResults()
                      ? output.getDimPosition(output.getNumResults() - 1)
                      : 0;
  bool swap = n.empty() || n.size() > 1 || llvm::is_contained(m, last);
  if (swap && m.size() == 1) {
    std::swap(m, n);
    std::swap(c.left, c.right);
  }
  if (n.size() != 1 || dims->k.size() != 1) {
    why = "it has several column or depth loops";
    return false;
  }
  if (dims->batch.size() + m.size() + 2 != c.op.getNumLoops()) {
    why = "a loop belongs to neither operand";
    return false;
  }
  c.batch.assign(dims->batch.begin(), dims->batch.end());
  c.rows = m;
  c.column = n[0];
  c.depth = dims->k[0];
  llvm::sort(c.batch);
  llvm::sort(c.rows);
  return true;
}

/// No quotients or remainders, so that the growth holds at every point.
bool isRegular(AffineExpr expr) {
  bool regular = true;
  if (expr)
    expr.walk([&](AffineExpr part) {
      regular &= part.getKind() != AffineExprKind::Mod &&
                 part.getKind() != AffineExprKind::FloorDiv &&
                 part.getKind() != AffineExprKind::CeilDiv;
    });
  return regular;
}

/// Finds out how an operand is read.
void describeOperand(Contraction &c, ContractionOperand &operand) {
  auto isLeaf = [](Value) { return false; };
  ReadCollector collector(c.source.getContext(), c.op.getNumLoops(), isLeaf);
  AffineMap map = c.op.getIndexingMapsArray()[operand.number];
  collector.visit(c.op->getOperand(operand.number),
                  collector.apply(map, collector.identity()));
  Reads reads = collector.take();
  size_t arguments = 0;
  int64_t largest = -1;
  for (const Read &read : reads.reads) {
    auto argument = dyn_cast<BlockArgument>(read.tensor);
    int64_t rank = read.index.size();
    if (!argument)
      continue;
    ++arguments;
    if (rank <= largest)
      continue;
    largest = rank;
    auto strides = argumentStrides(c.source, argument.getArgNumber());
    operand.isPlain =
        cast<RankedTensorType>(argument.getType()).getElementType() ==
        c.element;
    operand.unitLoop = std::nullopt;
    operand.isRegular = llvm::all_of(read.index, [&](const SymbolicIndex &i) {
      return i.growth(c.depth).has_value() && isRegular(i.expr);
    });
    for (unsigned loop : {c.column, c.depth}) {
      int64_t stride = 0;
      bool known = true;
      for (int64_t i = 0; i < rank; ++i) {
        auto growth = read.index[i].growth(loop);
        bool inner = i == rank - 1;
        if (!growth || (*growth && !strides && !inner))
          known = false;
        else
          stride += *growth * (strides ? strides[i] : 1);
      }
      if (known && stride == 1)
        operand.unitLoop = loop;
    }
  }
  // Every pointwise operation on the way counts; bodies that only yield don't.
  operand.isPlain &= arguments == 1 && reads.operations == 0 && !operand.cast;
}

} // namespace

std::optional<Contraction> Contraction::find(func::FuncOp source,
                                             std::string &why) {
  Contraction c;
  c.source = source;
  for (Operation &op : source.front()) {
    if (isa<ir::ScatterOp, ir::ScanOp, ir::AttentionOp>(op)) {
      why = "it has an operator of its own kind";
      return std::nullopt;
    }
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic || generic.getNumReductionLoops() == 0)
      continue;
    if (c.op) {
      why = "it has several reductions";
      return std::nullopt;
    }
    c.op = generic;
  }
  if (!c.op || !matchBody(c)) {
    why = "no reduction adds products of floats";
    return std::nullopt;
  }
  if (!assignLoops(c, why))
    return std::nullopt;
  auto fill = c.op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  c.startsAtZero = fill && matchPattern(fill.getInputs()[0], m_AnyZeroFloat());
  describeOperand(c, c.left);
  describeOperand(c, c.right);
  auto epilogues = findEpilogues(source, c.op.getResult(0));
  if (!epilogues) {
    why = "a result is no pointwise function of the product";
    return std::nullopt;
  }
  c.epilogues = std::move(*epilogues);
  return c;
}

//===----------------------------------------------------------------------===//
// Tiling
//===----------------------------------------------------------------------===//

namespace {

/// A shape of a block of accumulators and what a multiply-add costs in it,
/// measured, relative to the best.
struct BlockShape {
  int64_t rows, vectors;
  double cost;
};

constexpr BlockShape wideShapes[] = {
    {6, 4, 1.0},  {8, 3, 1.0},  {12, 2, 1.02}, {4, 4, 1.1}, {5, 4, 1.03},
    {7, 3, 1.02}, {6, 3, 1.05}, {8, 2, 1.1},   {2, 4, 1.5}, {1, 4, 2.5},
    {3, 4, 1.25}, {14, 1, 1.3}, {8, 1, 1.5}};
constexpr BlockShape narrowShapes[] = {{6, 2, 1.0},  {4, 3, 1.0}, {5, 2, 1.03},
                                       {4, 2, 1.1},  {3, 2, 1.3}, {2, 2, 1.6},
                                       {1, 2, 2.5},  {1, 4, 2.2}, {2, 4, 1.5},
                                       {10, 1, 1.2}, {6, 1, 1.5}};

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The block shape that wastes least for these sizes.
BlockShape chooseShape(ArrayRef<BlockShape> shapes, int64_t lanes,
                       std::optional<int64_t> rows,
                       std::optional<int64_t> columns) {
  BlockShape best = shapes[0];
  double bestCost = 0;
  for (const BlockShape &shape : shapes) {
    double cost = shape.cost;
    if (rows)
      cost *= double(ceilDiv(*rows, shape.rows) * shape.rows) / *rows;
    if (columns) {
      int64_t width = shape.vectors * lanes;
      cost *= double(ceilDiv(*columns, width) * width) / *columns;
    }
    if (bestCost == 0 || cost < bestCost * 0.999) {
      best = shape;
      bestCost = cost;
    }
  }
  return best;
}

constexpr int64_t unknownDepth = 384;
constexpr int64_t largestDepth = 512;
constexpr int64_t unknownRows = 192;
constexpr int64_t largestRows = 288;
constexpr int64_t enoughTiles = 8;

int64_t chooseRowsPerTile(const Contraction &c, const ContractionTiling &t) {
  auto rows = c.knownSize(c.rows);
  if (!rows)
    return ceilDiv(unknownRows, t.rows) * t.rows;
  int64_t perTile = ceilDiv(*rows, ceilDiv(*rows, largestRows));
  auto columns = c.knownSize(c.column);
  auto batch = c.knownSize(c.batch);
  int64_t others =
      columns && batch ? ceilDiv(*columns, t.columns()) * *batch : enoughTiles;
  while (others * ceilDiv(*rows, perTile) < enoughTiles && perTile > 48)
    perTile = ceilDiv(perTile, 2);
  return ceilDiv(perTile, t.rows) * t.rows;
}

} // namespace

ContractionTiling ContractionTiling::choose(const Contraction &c,
                                            const TargetInfo &target) {
  ContractionTiling t;
  t.lanes = target.lanes(c.element.getIntOrFloatBitWidth());
  auto rows = c.knownSize(c.rows), columns = c.knownSize(c.column);
  auto depth = c.knownSize(c.depth);
  BlockShape shape =
      chooseShape(target.avx512 ? ArrayRef(wideShapes) : ArrayRef(narrowShapes),
                  t.lanes, rows, columns);
  t.rows = shape.rows;
  t.vectors = shape.vectors;
  t.depth = unknownDepth;
  if (depth) {
    int64_t blocks = std::max<int64_t>(1, ceilDiv(*depth, largestDepth));
    t.depth = ceilDiv(ceilDiv(*depth, blocks), t.lanes) * t.lanes;
  }
  t.rowsPerTile = chooseRowsPerTile(c, t);
  t.packLeft = !c.left.isPlain || !c.left.isRegular;
  bool fewRows = rows && *rows <= 2 * t.rows;
  if (c.right.unitLoop == c.depth)
    t.right = Right::PackTransposed;
  else if (fewRows && c.right.isPlain && c.right.isRegular &&
           c.right.unitLoop == c.column && columns &&
           *columns % t.columns() == 0)
    t.right = Right::InPlace;
  else
    t.right = Right::Pack;
  return t;
}

} // namespace codegen
} // namespace anabranch
