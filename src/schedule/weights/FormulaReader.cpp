//===- FormulaReader.cpp - the formula that makes a tensor ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/FormulaReader.h"

#include "analysis/ReshapeIndex.h"
#include "ir/QuantizedWeight.h"
#include "ir/SteadyInput.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "schedule/weights/IntegerRange.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

using ir::QuantizedWeight;
using Kind = FormulaNode::Kind;

Formula elementOf(Value tensor, ArrayRef<AffineExpr> index, bool isUnsigned) {
  FormulaNode node;
  node.kind = Kind::Element;
  node.element = {tensor, llvm::to_vector(index), isUnsigned};
  return std::make_shared<FormulaNode>(std::move(node));
}

class FormulaReader {
public:
  explicit FormulaReader(MLIRContext *context) : context(context) {}

  Formula read(Value tensor, ArrayRef<AffineExpr> index, bool isUnsigned) {
    Formula found = follow(tensor, index, isUnsigned);
    return found ? found : elementOf(tensor, index, isUnsigned);
  }

  /// What the formulas read so far rely on.
  SmallVector<Assumption> assumptions;
  std::optional<DepthOrder> order;

private:
  MLIRContext *context;

  AffineExpr constant(int64_t value) {
    return getAffineConstantExpr(value, context);
  }

  Formula follow(Value tensor, ArrayRef<AffineExpr> index, bool isUnsigned) {
    Operation *op = tensor.getDefiningOp();
    if (auto generic = dyn_cast_or_null<linalg::GenericOp>(op))
      return followGeneric(generic, index, isUnsigned);
    if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
      return followExpand(expand, index, isUnsigned);
    if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op))
      return followCollapse(collapse, index, isUnsigned);
    if (auto cast = dyn_cast_or_null<tensor::CastOp>(op))
      return read(cast.getSource(), index, isUnsigned);
    return nullptr;
  }

  Formula followExpand(tensor::ExpandShapeOp op, ArrayRef<AffineExpr> index,
                       bool isUnsigned) {
    SmallVector<AffineExpr> source;
    for (const ReassociationIndices &group : op.getReassociationIndices())
      source.push_back(analysis::joinIndex(
          ArrayRef<int64_t>(group), constant(0),
          [&](AffineExpr position, int64_t part) {
            return position * op.getResultType().getDimSize(part) + index[part];
          }));
    return read(op.getSrc(), source, isUnsigned);
  }

  Formula followCollapse(tensor::CollapseShapeOp op, ArrayRef<AffineExpr> index,
                         bool isUnsigned) {
    SmallVector<AffineExpr> source(op.getSrcType().getRank(), constant(0));
    auto divide = [&](AffineExpr position, int64_t part) {
      int64_t size = op.getSrcType().getDimSize(part);
      return std::pair(position.floorDiv(size), position % size);
    };
    for (auto [position, group] :
         llvm::zip(index, op.getReassociationIndices()))
      analysis::splitIndex<AffineExpr>(ArrayRef<int64_t>(group),
                                       op.getSrcType().getShape(), position,
                                       source, divide);
    return read(op.getSrc(), source, isUnsigned);
  }

  Formula followGeneric(linalg::GenericOp op, ArrayRef<AffineExpr> index,
                        bool isUnsigned) {
    if (op.getNumReductionLoops() != 0 || op.getNumDpsInits() != 1)
      return nullptr;
    AffineMap made = op.getIndexingMapsArray().back();
    if (!made.isPermutation())
      return nullptr;
    SmallVector<AffineExpr> point(op.getNumLoops());
    for (auto [position, expr] : llvm::zip(index, made.getResults()))
      point[cast<AffineDimExpr>(expr).getPosition()] = position;
    return scalar(op, op.getBody()->getTerminator()->getOperand(0), point,
                  isUnsigned);
  }

  /// The formula of a value in the body of a generic, at a point; null if there
  /// is none.
  Formula scalar(linalg::GenericOp op, Value value, ArrayRef<AffineExpr> point,
                 bool isUnsigned) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned number = argument.getArgNumber();
      if (argument.getOwner() != op.getBody() ||
          number >= static_cast<unsigned>(op.getNumDpsInputs()))
        return nullptr;
      AffineMap map = op.getIndexingMapsArray()[number];
      SmallVector<AffineExpr> at;
      for (AffineExpr expr : map.getResults())
        at.push_back(expr.replaceDims(point));
      return read(op->getOperand(number), at, isUnsigned);
    }
    if (Formula number = literal(value, isUnsigned))
      return number;
    Operation *made = value.getDefiningOp();
    if (auto extract = dyn_cast<tensor::ExtractOp>(made)) {
      if (auto index = gathered(op, extract, point))
        return read(extract.getTensor(), *index, isUnsigned);
      return chosen(op, extract, point);
    }
    if (isa<arith::SIToFPOp, arith::ExtSIOp>(made))
      return scalar(op, made->getOperand(0), point, /*isUnsigned=*/false);
    if (isa<arith::UIToFPOp, arith::ExtUIOp>(made))
      return scalar(op, made->getOperand(0), point, /*isUnsigned=*/true);
    if (isa<arith::ExtFOp, arith::TruncFOp>(made))
      return scalar(op, made->getOperand(0), point, isUnsigned);
    if (isa<math::Exp2Op>(made)) {
      Formula power = scalar(op, made->getOperand(0), point, isUnsigned);
      return power ? combine(Kind::Exp2, power, nullptr) : nullptr;
    }
    std::optional<Kind> kind = kindOf(op, made, isUnsigned);
    if (!kind)
      return nullptr;
    Formula left = scalar(op, made->getOperand(0), point, isUnsigned);
    Formula right = scalar(op, made->getOperand(1), point, isUnsigned);
    return left && right ? combine(*kind, left, right) : nullptr;
  }

  /// The index of an element that is gathered at positions which are quotients
  /// of its own, or the groups of depths; none if a position is anything else.
  std::optional<SmallVector<AffineExpr>> gathered(linalg::GenericOp op,
                                                  tensor::ExtractOp extract,
                                                  ArrayRef<AffineExpr> point) {
    SmallVector<AffineExpr> index;
    SmallVector<Assumption> found;
    auto source = cast<RankedTensorType>(extract.getTensor().getType());
    for (auto [position, size] :
         llvm::zip(extract.getIndices(), source.getShape())) {
      if (auto loop = position.getDefiningOp<linalg::IndexOp>()) {
        index.push_back(point[loop.getDim()]);
        continue;
      }
      Formula read = integerOf(op, position, point);
      AffineExpr group = read ? groupBelow(read->element, size) : AffineExpr();
      if (!group)
        return std::nullopt;
      index.push_back(group);
      found.push_back({read->element, group});
    }
    llvm::append_range(assumptions, found);
    return index;
  }

  /// The number of a group that an element of a list is. Null if the
  /// description does not say so, or if the last one is not below `size`.
  AffineExpr groupBelow(const TensorElement &element, int64_t size) {
    int64_t divisor = ir::divisorOf(element.tensor);
    int64_t group = divisor ? divisor : ir::groupSizeOf(element.tensor);
    auto list = cast<RankedTensorType>(element.tensor.getType());
    if (!group || list.getRank() != 1 || list.isDynamicDim(0) ||
        (list.getDimSize(0) - 1) / group >= size)
      return AffineExpr();
    if (divisor)
      return element.index[0].floorDiv(divisor);
    DepthOrder other{element.tensor, group};
    if (element.index[0] != getAffineDimExpr(1, context) ||
        (order && *order != other))
      return AffineExpr();
    order = other;
    return getAffineDimExpr(2, context).floorDiv(group);
  }

  /// The element that an index in a tensor is made of; null if it is none.
  Formula integerOf(linalg::GenericOp op, Value index,
                    ArrayRef<AffineExpr> point) {
    Value position = positionIn(index);
    Formula found =
        position ? scalar(op, position, point, /*isUnsigned=*/false) : nullptr;
    return found && found->kind == Kind::Element ? found : nullptr;
  }

  /// A number of a short table; null if its position may be beyond the table.
  Formula chosen(linalg::GenericOp op, tensor::ExtractOp extract,
                 ArrayRef<AffineExpr> point) {
    auto type = cast<RankedTensorType>(extract.getTensor().getType());
    if (type.getRank() != 1 || !type.hasStaticShape() ||
        type.getDimSize(0) > QuantizedWeight::tableSize ||
        !isa<FloatType>(type.getElementType()))
      return nullptr;
    Formula index = integerOf(op, extract.getIndices()[0], point);
    if (!index)
      return nullptr;
    const TensorElement &element = index->element;
    IntegerRange table{0, type.getDimSize(0) - 1};
    if (!isa<IntegerType>(elementTypeOf(element.tensor)) ||
        !table.contains(rangeOfElements(element.tensor, element.isUnsigned)))
      return nullptr;
    FormulaNode node;
    node.kind = Kind::Chosen;
    node.element = element;
    node.table = extract.getTensor();
    return std::make_shared<FormulaNode>(std::move(node));
  }

  /// The integer that an index in a table is made of. An index counts from the
  /// end if it is negative, and is zero where a check fails: neither concerns
  /// an integer within the table.
  static Value positionIn(Value index) {
    while (auto choice = index.getDefiningOp<arith::SelectOp>()) {
      Value kept = choice.getTrueValue(), other = choice.getFalseValue();
      bool countsFromEnd = kept.getDefiningOp<arith::AddIOp>() &&
                           kept.getDefiningOp()->getOperand(0) == other;
      index = countsFromEnd ? other : kept;
    }
    auto cast = index.getDefiningOp<arith::IndexCastOp>();
    return cast ? cast.getIn() : Value();
  }

  static Formula literal(Value value, bool isUnsigned) {
    APFloat real(0.0);
    APInt integer;
    if (matchPattern(value, m_ConstantFloat(&real))) {
      bool loses = false;
      real.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      return constantFormula(real.convertToDouble());
    }
    if (matchPattern(value, m_ConstantInt(&integer)))
      return constantFormula(static_cast<double>(
          isUnsigned ? integer.getZExtValue() : integer.getSExtValue()));
    return nullptr;
  }

  static std::optional<Kind> kindOf(linalg::GenericOp op, Operation *made,
                                    bool isUnsigned) {
    if (isa<arith::AddFOp>(made))
      return Kind::Add;
    if (isa<arith::SubFOp>(made))
      return Kind::Sub;
    if (isa<arith::MulFOp>(made))
      return Kind::Mul;
    if (isa<arith::DivFOp>(made))
      return Kind::Div;
    if (isa<arith::AddIOp, arith::SubIOp>(made) &&
        isExact(op, made->getResult(0), isUnsigned))
      return isa<arith::AddIOp>(made) ? Kind::Add : Kind::Sub;
    return std::nullopt;
  }

  /// Sums of bytes may wrap around where their ranges don't exclude it; wider
  /// ones of few bits don't.
  static bool isExact(linalg::GenericOp op, Value sum, bool isUnsigned) {
    return sum.getType().getIntOrFloatBitWidth() >= 16 ||
           neverOverflows(op, sum, isUnsigned);
  }
};

} // namespace

ReadFormula readFormula(Value tensor, AffineMap map) {
  FormulaReader reader(tensor.getContext());
  Formula formula = reader.read(tensor, map.getResults(), /*isUnsigned=*/false);
  return {formula, std::move(reader.assumptions), reader.order};
}

} // namespace schedule
} // namespace anabranch
