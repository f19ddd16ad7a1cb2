//===- Contraction.cpp - what a contraction kernel computes ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/Contraction.h"

#include "analysis/AccessMap.h"
#include "analysis/Gather.h"
#include "analysis/Padding.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

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

std::optional<int64_t> Contraction::rowsTogether() const {
  auto all = knownSize(rows);
  if (!isGrouped)
    return all;
  constexpr int64_t unknown = 4;
  if (!all || !right.places)
    return unknown;
  int64_t places = std::max<int64_t>(*right.places, 1);
  return std::max<int64_t>((*all + places - 1) / places, 1);
}

namespace {

/// Follows `value` through a widening to a block argument.
bool matchOperand(Block &body, Value value, Operation *&widening,
                  unsigned &number) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp>(op)) {
    widening = op;
    value = op->getOperand(0);
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &body)
    return false;
  number = argument.getArgNumber();
  return true;
}

/// Matches a body that adds the product of two inputs to the output.
bool matchBody(Contraction &contraction) {
  Block &body = contraction.op.getRegion().front();
  if (contraction.op.getNumDpsInputs() != 2 ||
      contraction.op.getNumDpsInits() != 1)
    return false;
  Operation *sum = body.getTerminator()->getOperand(0).getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::AddIOp>(sum))
    return false;
  Value accumulator = body.getArgument(2);
  Value other;
  if (sum->getOperand(0) == accumulator)
    other = sum->getOperand(1);
  else if (sum->getOperand(1) == accumulator)
    other = sum->getOperand(0);
  else
    return false;
  Operation *product = other.getDefiningOp();
  if (!isa_and_nonnull<arith::MulFOp, arith::MulIOp>(product) ||
      !matchOperand(body, product->getOperand(0), contraction.left.cast,
                    contraction.left.number) ||
      !matchOperand(body, product->getOperand(1), contraction.right.cast,
                    contraction.right.number) ||
      contraction.left.number == contraction.right.number ||
      contraction.left.number > 1 || contraction.right.number > 1)
    return false;
  contraction.element = accumulator.getType();
  return contraction.element.isF32() || contraction.element.isF64() ||
         contraction.element.isInteger(32) || contraction.element.isInteger(64);
}

/// A product of fewer columns leaves most vectors partly empty.
constexpr int64_t fewColumns = 16;

/// Whether to swap the operands. The columns should be the loop that is
/// contiguous in the product, unless that loop is short.
bool swapsOperands(const Contraction &contraction, ArrayRef<unsigned> m,
                   ArrayRef<unsigned> n) {
  AffineMap output =
      linalg::GenericOp(contraction.op).getIndexingMapsArray()[2];
  unsigned results = output.getNumResults();
  unsigned last = results ? output.getDimPosition(results - 1) : 0;
  if (m.size() != 1)
    return false;
  if (!llvm::is_contained(n, last))
    return n.empty() || m[0] == last;
  auto columns = contraction.knownSize(last),
       others = contraction.knownSize(m[0]);
  // In memory, the product of a matrix and a vector equals that of a vector and
  // a matrix.
  if (n.size() == 1 && columns == 1 && others && *others > 1)
    return true;
  return n.size() > 1 && columns && others && *columns < fewColumns &&
         *columns < *others;
}

/// Finds the role of each loop. Further loops of the right operand, such as the
/// images of a convolution, become batches that share the left operand.
bool assignLoops(Contraction &contraction, std::string &why) {
  auto dims = linalg::inferContractionDims(contraction.op);
  if (failed(dims)) {
    why = "it is no contraction";
    return false;
  }
  SmallVector<unsigned> m(dims->m.begin(), dims->m.end());
  SmallVector<unsigned> n(dims->n.begin(), dims->n.end());
  if (contraction.left.number != 0)
    std::swap(contraction.left, contraction.right);
  if (dims->batch.size() + m.size() + n.size() + dims->k.size() !=
      contraction.op.getNumLoops()) {
    why = "a loop belongs to neither operand";
    return false;
  }
  if (swapsOperands(contraction, m, n)) {
    std::swap(m, n);
    std::swap(contraction.left, contraction.right);
  }
  if (n.empty() || dims->k.size() != 1) {
    why = "it has no column loop or several depth loops";
    return false;
  }
  contraction.batch.assign(dims->batch.begin(), dims->batch.end());
  AffineMap output = contraction.op.getIndexingMapsArray()[2];
  llvm::sort(n, [&](unsigned a, unsigned b) {
    return *output.getResultPosition(
               getAffineDimExpr(a, contraction.op.getContext())) <
           *output.getResultPosition(
               getAffineDimExpr(b, contraction.op.getContext()));
  });
  contraction.column = n.pop_back_val();
  contraction.batch.append(n);
  contraction.rows = m;
  contraction.depth = dims->k[0];
  llvm::sort(contraction.batch);
  llvm::sort(contraction.rows);
  return true;
}

bool isDivision(AffineExpr expr) {
  return expr.getKind() == AffineExprKind::Mod ||
         expr.getKind() == AffineExprKind::FloorDiv ||
         expr.getKind() == AffineExprKind::CeilDiv;
}

/// Whether the expression has no quotients or remainders, so that its growth is
/// the same at every point.
bool isRegular(AffineExpr expr) {
  bool regular = true;
  if (expr)
    expr.walk([&](AffineExpr part) { regular &= !isDivision(part); });
  return regular;
}

/// Whether an index consists of the quotient and the remainder of `whole` by
/// `size`. The whole is the remainder if there is but one quotient.
bool isSplit(AffineExpr whole, int64_t size, int64_t quotients,
             AffineExpr quotient, AffineExpr remainder) {
  if (quotient == whole.floorDiv(size) && remainder == whole % size)
    return true;
  return quotients == 1 && remainder == whole &&
         quotient == getAffineConstantExpr(0, whole.getContext());
}

/// The panels whose index for a column and a depth is `index`: [..., column /
/// width, depth / kPack, column % width, depth % kPack]. In a gathered operand
/// the index begins with its places. None if the index has another form.
std::optional<Panels> matchPanels(const Contraction &contraction,
                                  const analysis::Read &read, bool isGathered) {
  ArrayRef<analysis::SymbolicIndex> index = read.index;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(read.tensor.getType()).getShape();
  MLIRContext *context = read.tensor.getContext();
  AffineExpr column = getAffineDimExpr(contraction.column, context);
  AffineExpr depth = getAffineDimExpr(contraction.depth, context);
  linalg::GenericOp op = contraction.op;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  auto isBatch = [&](size_t i) {
    unsigned loop = contraction.batch[i];
    // The index of the only element is a number.
    return index[i].plainLoop() == loop || (ranges[loop] == 1 && shape[i] == 1);
  };
  for (int64_t kPack : {1, 2, 4, 8}) {
    size_t inner = kPack > 1 ? 4 : 3;
    if (index.size() < inner ||
        (!isGathered && index.size() != contraction.batch.size() + inner))
      continue;
    ArrayRef<analysis::SymbolicIndex> places = index.take_back(inner);
    ArrayRef<int64_t> sizes = shape.take_back(inner);
    int64_t width = sizes[2];
    bool matches =
        !ShapedType::isDynamic(width) &&
        isSplit(column, width, sizes[0], places[0].expr, places[2].expr);
    matches &= kPack == 1 ? places[1].expr == depth
                          : sizes[3] == kPack &&
                                isSplit(depth, kPack, sizes[1], places[1].expr,
                                        places[3].expr);
    for (size_t i = 0; i < index.size() - inner; ++i)
      matches &= isGathered ? !index[i].loops.test(contraction.column) &&
                                  !index[i].loops.test(contraction.depth)
                            : isBatch(i);
    if (matches)
      return Panels{width, kPack};
  }
  return std::nullopt;
}

/// Finds out whether one index depends on columns and depths, as the points of
/// an image and of its window do.
void describeWindow(const Contraction &contraction, const analysis::Read &read,
                    ContractionOperand &operand) {
  AffineExpr column =
      getAffineDimExpr(contraction.column, read.tensor.getContext());
  operand.isWindow = false;
  operand.windowRow = 0;
  for (const analysis::SymbolicIndex &index : read.index) {
    if (!index.expr || !index.loops.test(contraction.column) ||
        !index.loops.test(contraction.depth))
      continue;
    operand.isWindow = true;
    index.expr.walk([&](AffineExpr part) {
      auto binary = dyn_cast<AffineBinaryOpExpr>(part);
      if (part.getKind() != AffineExprKind::Mod || binary.getLHS() != column)
        return;
      if (auto size = dyn_cast<AffineConstantExpr>(binary.getRHS()))
        operand.windowRow = size.getValue();
    });
  }
}

/// The number of symbols in an expression: sizes that only a call knows.
unsigned symbolsIn(AffineExpr expr) {
  unsigned count = 0;
  expr.walk([&](AffineExpr part) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(part))
      count = std::max(count, symbol.getPosition() + 1);
  });
  return count;
}

/// The smallest number of depths after which the indices repeat up to a
/// constant growth, at most the largest window that is worth unrolling.
int64_t windowPointsOf(const Contraction &contraction,
                       const analysis::Read &read) {
  linalg::GenericOp op = contraction.op;
  constexpr int64_t most = 64;
  auto depths = contraction.knownSize(contraction.depth);
  MLIRContext *context = read.tensor.getContext();
  AffineExpr depth = getAffineDimExpr(contraction.depth, context);
  for (int64_t points = 2; depths && points <= most; ++points) {
    auto repeats = [&](const analysis::SymbolicIndex &index) {
      if (!index.expr || !index.loops.test(contraction.depth))
        return true;
      AffineExpr scaled =
          simplifyAffineExpr(index.expr.replace(depth, depth * points),
                             op.getNumLoops(), symbolsIn(index.expr));
      bool divides = false;
      scaled.walk([&](AffineExpr part) {
        divides |= isDivision(part) && part.isFunctionOfDim(contraction.depth);
      });
      return !divides;
    };
    if (*depths % points == 0 && llvm::all_of(read.index, repeats))
      return points;
  }
  return 0;
}

/// Whether the read covers all rows and all depths of a tensor, in its order.
bool isMatrix(const Contraction &contraction, const analysis::Read &read) {
  SmallVector<unsigned> loops(contraction.rows);
  loops.push_back(contraction.depth);
  if (read.index.size() != loops.size())
    return false;
  return llvm::all_of(llvm::zip(read.index, loops), [](auto pair) {
    return std::get<0>(pair).plainLoop() == std::get<1>(pair);
  });
}

/// Whether the index is a place: it depends on the elements of a tensor.
bool isPlace(const analysis::SymbolicIndex &index) { return !index.expr; }

/// Elements from each index of a tensor to the next; none if not all are known.
/// A row-major tensor has no `strides`.
std::optional<SmallVector<int64_t>> stridesOf(ArrayRef<int64_t> shape,
                                              DenseI64ArrayAttr strides) {
  SmallVector<int64_t> found(shape.size(), 1);
  if (strides)
    found.assign(strides.asArrayRef().begin(), strides.asArrayRef().end());
  for (size_t i = shape.size(); !strides && i-- > 1;) {
    if (ShapedType::isDynamic(shape[i]))
      return std::nullopt;
    found[i - 1] = found[i] * shape[i];
  }
  if (llvm::any_of(found, ShapedType::isDynamic))
    return std::nullopt;
  return found;
}

/// Whether the rows of several loops are at equal distances: each loop goes on
/// where the next inner one ends. Sizes and distances must be known.
bool rowsFollowEachOther(const Contraction &contraction,
                         const analysis::Read &read,
                         DenseI64ArrayAttr strides) {
  auto shape = cast<RankedTensorType>(read.tensor.getType()).getShape();
  auto distances = stridesOf(shape, strides);
  if (!distances)
    return false;
  std::optional<int64_t> next; // the distance at which an outer loop goes on
  for (unsigned loop : llvm::reverse(contraction.rows)) {
    auto size = contraction.knownSize(loop);
    if (size == 1)
      continue;
    int64_t distance = 0;
    for (auto [index, ofIndex] : llvm::zip(read.index, *distances)) {
      if (!index.loops.test(loop))
        continue;
      auto growth = index.growth(loop);
      if (!growth || isPlace(index) || !isRegular(index.expr))
        return false;
      distance += *growth * ofIndex;
    }
    if (!size || (next && distance != *next))
      return false;
    next = distance * *size;
  }
  return true;
}

/// The argument of which a tensor is a view; null if there is none.
Value rootOf(Value tensor) {
  while (Value viewed = analysis::viewedBy(tensor.getDefiningOp()))
    tensor = viewed;
  return isa<BlockArgument>(tensor) ? tensor : Value();
}

/// Whether an index is the same at all depths and columns of a panel, or grows
/// by a constant with the depth.
bool isRegularIndex(const Contraction &contraction,
                    const analysis::SymbolicIndex &index) {
  if (isPlace(index))
    return !index.loops.test(contraction.depth) &&
           !index.loops.test(contraction.column);
  return index.growth(contraction.depth).has_value() && isRegular(index.expr);
}

/// See ContractionOperand::depthRun. The index of the last dimension is the
/// remainder of the depth, and that of another one may be the quotient.
int64_t depthRunOf(const Contraction &contraction, const analysis::Read &read,
                   DenseI64ArrayAttr strides) {
  AffineExpr depth =
      getAffineDimExpr(contraction.depth, read.tensor.getContext());
  if (read.index.empty())
    return 0;
  auto last = dyn_cast_or_null<AffineBinaryOpExpr>(read.index.back().expr);
  if (!last || last.getKind() != AffineExprKind::Mod ||
      last.getLHS() != depth || (strides && strides.asArrayRef().back() != 1))
    return 0;
  auto run = dyn_cast<AffineConstantExpr>(last.getRHS());
  if (!run)
    return 0;
  bool isRun = llvm::all_of(
      ArrayRef(read.index).drop_back(),
      [&](const analysis::SymbolicIndex &index) {
        return index.expr && (index.expr == depth.floorDiv(run.getValue()) ||
                              (!index.loops.test(contraction.depth) &&
                               isRegular(index.expr)));
      });
  return isRun ? run.getValue() : 0;
}

/// Finds the loops on which the places of a gathered operand depend.
void describePlaces(const Contraction &contraction, const analysis::Read &read,
                    ContractionOperand &operand) {
  operand.placeLoops.clear();
  operand.places = 1;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(read.tensor.getType()).getShape();
  for (auto [size, index] : llvm::zip(shape, read.index)) {
    if (!isPlace(index))
      continue;
    if (ShapedType::isDynamic(size) || !operand.places)
      operand.places = std::nullopt;
    else
      *operand.places *= size;
    for (unsigned loop : index.loops.set_bits())
      if (contraction.knownSize(loop) != 1 &&
          !llvm::is_contained(operand.placeLoops, loop))
        operand.placeLoops.push_back(loop);
  }
}

/// Finds out how an operand is read.
void describeOperand(Contraction &contraction, ContractionOperand &operand) {
  auto gather = analysis::placedGather(contraction.op, operand.number);
  Value source = gather ? rootOf(gather->source) : Value();
  operand.isGathered = bool(source);
  auto isLeaf = [](Value) { return false; };
  analysis::ReadCollector collector(contraction.source.getContext(),
                                    contraction.op.getNumLoops(), isLeaf);
  AffineMap map = contraction.op.getIndexingMapsArray()[operand.number];
  collector.visit(contraction.op->getOperand(operand.number),
                  collector.apply(map, collector.identity()));
  analysis::Reads reads = collector.take();
  size_t arguments = 0;
  int64_t largest = -1;
  for (const analysis::Read &read : reads.reads) {
    auto argument = dyn_cast<BlockArgument>(read.tensor);
    int64_t rank = read.index.size();
    if (!argument || (source && argument != source))
      continue;
    ++arguments;
    if (rank <= largest)
      continue;
    largest = rank;
    auto strides = argumentStrides(contraction.source, argument.getArgNumber());
    operand.memory =
        cast<RankedTensorType>(argument.getType()).getElementType();
    operand.panels =
        strides ? std::nullopt : matchPanels(contraction, read, bool(source));
    operand.unitLoop = std::nullopt;
    describeWindow(contraction, read, operand);
    operand.windowPoints =
        operand.isWindow ? windowPointsOf(contraction, read) : 0;
    if (source)
      describePlaces(contraction, read, operand);
    // Padding lies nowhere: steps into it move by no number of bytes.
    operand.isRegular =
        !read.isGuarded &&
        llvm::all_of(read.index, [&](const analysis::SymbolicIndex &i) {
          return isRegularIndex(contraction, i);
        });
    operand.depthRun =
        read.isGuarded ? 0 : depthRunOf(contraction, read, strides);
    bool hasRuns = operand.isRegular || operand.depthRun;
    operand.rowsAreRegular =
        hasRuns && contraction.rows.size() == 1 &&
        llvm::all_of(read.index, [&](const analysis::SymbolicIndex &i) {
          return i.growth(contraction.rows[0]).has_value();
        });
    operand.rowsAreRegular |=
        (!read.isGuarded && !strides && isMatrix(contraction, read)) ||
        (hasRuns && rowsFollowEachOther(contraction, read, strides));
    for (unsigned loop : {contraction.column, contraction.depth}) {
      int64_t stride = 0;
      bool known = true;
      for (int64_t i = 0; i < rank; ++i) {
        bool isSlow =
            gather && isPlace(read.index[i]) && gather->steady.test(loop);
        auto growth = isSlow ? 0 : read.index[i].growth(loop);
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
  // Pointwise operations compute; a view's body only yields. The operations of
  // a gather compute its place.
  if (arguments != 1 || (!source && reads.operations != 0)) {
    operand.memory = Type();
    operand.panels = std::nullopt;
  }
}

/// Batches of one row, each with another place of the right operand, become
/// rows. Neighbouring rows may have the same place.
void groupRows(Contraction &contraction) {
  const ContractionOperand &right = contraction.right;
  auto isBatch = [&](unsigned loop) {
    return llvm::is_contained(contraction.batch, loop);
  };
  if (!right.memory || right.placeLoops.empty() ||
      contraction.knownSize(contraction.rows) != 1 ||
      !llvm::all_of(right.placeLoops, isBatch))
    return;
  contraction.isGrouped = true;
  for (unsigned loop : right.placeLoops) {
    contraction.batch.erase(llvm::find(contraction.batch, loop));
    contraction.rows.push_back(loop);
  }
  llvm::sort(contraction.rows);
  describeOperand(contraction, contraction.right);
}

} // namespace

Type Contraction::narrow() const {
  if (!left.cast || !right.cast)
    return Type();
  Type type = left.cast->getOperand(0).getType();
  return type == right.cast->getOperand(0).getType() ? type : Type();
}

bool Contraction::multipliesInt8() const {
  Type type = narrow();
  return type && type.isInteger(8) && element.isInteger(32) &&
         !(left.isUnsigned() && right.isUnsigned());
}

std::optional<Contraction> Contraction::match(linalg::GenericOp op,
                                              std::string &why) {
  Contraction contraction;
  contraction.op = op;
  if (!matchBody(contraction)) {
    why = "no reduction adds products of floats or of i32 or i64";
    return std::nullopt;
  }
  if (!assignLoops(contraction, why))
    return std::nullopt;
  return contraction;
}

std::optional<Contraction> Contraction::find(func::FuncOp source,
                                             std::string &why) {
  linalg::GenericOp product;
  for (Operation &op : source.front()) {
    if (isa<ir::ScatterOp, ir::ScanOp, ir::AttentionOp, ir::FftOp>(op)) {
      why = "it has a scatter, a scan, an attention or a transform";
      return std::nullopt;
    }
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic || generic.getNumReductionLoops() == 0)
      continue;
    if (product) {
      why = "it has several reductions";
      return std::nullopt;
    }
    product = generic;
  }
  if (!product) {
    why = "it has no reduction";
    return std::nullopt;
  }
  std::optional<Contraction> found = match(product, why);
  if (!found)
    return std::nullopt;
  Contraction &contraction = *found;
  contraction.source = source;
  contraction.startsAtZero = analysis::isZeros(contraction.op.getDpsInits()[0]);
  describeOperand(contraction, contraction.right);
  groupRows(contraction);
  describeOperand(contraction, contraction.left);
  contraction.windows = ImageWindows::of(contraction);
  auto epilogues = findEpilogues(source, contraction.op.getResult(0));
  if (!epilogues) {
    why = "a result is no pointwise function of the product";
    return std::nullopt;
  }
  contraction.epilogues = std::move(*epilogues);
  return found;
}

} // namespace kernels
} // namespace anabranch
