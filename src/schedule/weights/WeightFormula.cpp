//===- WeightFormula.cpp - how a weight is dequantised --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/WeightFormula.h"

#include "analysis/ReshapeIndex.h"
#include "ir/QuantizedWeight.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace schedule {

using Kind = FormulaNode::Kind;

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// Emits an index that is never negative.
static Value emitIndex(OpBuilder &b, Location loc, AffineExpr expr,
                       Value column, Value depth) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dim.getPosition() == 0 ? column : depth;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return b.create<arith::ConstantIndexOp>(loc, constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value left = emitIndex(b, loc, binary.getLHS(), column, depth);
  Value right = emitIndex(b, loc, binary.getRHS(), column, depth);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return b.create<arith::AddIOp>(loc, left, right);
  case AffineExprKind::Mul:
    return b.create<arith::MulIOp>(loc, left, right);
  case AffineExprKind::Mod:
    return b.create<arith::RemUIOp>(loc, left, right);
  default:
    return b.create<arith::DivUIOp>(loc, left, right);
  }
}

Value TensorElement::extract(OpBuilder &b, Location loc, Value column,
                             Value depth) const {
  SmallVector<Value> at;
  for (AffineExpr expr : index)
    at.push_back(emitIndex(b, loc, expr, column, depth));
  return b.create<tensor::ExtractOp>(loc, tensor, at);
}

static Value toFloat(OpBuilder &b, Location loc, Value value, bool isUnsigned) {
  Type f32 = b.getF32Type(), type = value.getType();
  if (type == f32)
    return value;
  if (isa<FloatType>(type))
    return type.getIntOrFloatBitWidth() < 32
               ? b.create<arith::ExtFOp>(loc, f32, value).getResult()
               : b.create<arith::TruncFOp>(loc, f32, value).getResult();
  return isUnsigned ? b.create<arith::UIToFPOp>(loc, f32, value).getResult()
                    : b.create<arith::SIToFPOp>(loc, f32, value).getResult();
}

FloatType FormulaNode::type(Builder &b) const {
  if (kind != Kind::Element)
    return b.getF32Type();
  auto type = dyn_cast<FloatType>(
      cast<RankedTensorType>(element.tensor.getType()).getElementType());
  return type && (type.isF16() || type.isBF16()) ? type : b.getF32Type();
}

Value FormulaNode::emit(OpBuilder &b, Location loc, Value column,
                        Value depth) const {
  if (kind == Kind::Element)
    return toFloat(b, loc, element.extract(b, loc, column, depth),
                   element.isUnsigned);
  if (kind == Kind::Constant)
    return b.create<arith::ConstantOp>(
        loc, b.getF32FloatAttr(static_cast<float>(number)));
  Value first = left->emit(b, loc, column, depth);
  Value second = right->emit(b, loc, column, depth);
  switch (kind) {
  case Kind::Add:
    return b.create<arith::AddFOp>(loc, first, second);
  case Kind::Sub:
    return b.create<arith::SubFOp>(loc, first, second);
  case Kind::Mul:
    return b.create<arith::MulFOp>(loc, first, second);
  default:
    return b.create<arith::DivFOp>(loc, first, second);
  }
}

Formula constantFormula(double number) {
  FormulaNode node;
  node.number = number;
  return std::make_shared<FormulaNode>(std::move(node));
}

Formula combine(FormulaNode::Kind kind, Formula left, Formula right) {
  FormulaNode node;
  node.kind = kind;
  node.left = std::move(left);
  node.right = std::move(right);
  return std::make_shared<FormulaNode>(std::move(node));
}

namespace {

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

Formula elementOf(Value tensor, ArrayRef<AffineExpr> index, bool isUnsigned) {
  FormulaNode node;
  node.kind = Kind::Element;
  node.element = {tensor, llvm::to_vector(index), isUnsigned};
  return std::make_shared<FormulaNode>(std::move(node));
}

/// Reads the operations that lead to a tensor as a formula. A value that no
/// formula can express becomes an element of its own.
class FormulaReader {
public:
  explicit FormulaReader(MLIRContext *context) : context(context) {}

  Formula read(Value tensor, ArrayRef<AffineExpr> index, bool isUnsigned) {
    Formula found = follow(tensor, index, isUnsigned);
    return found ? found : elementOf(tensor, index, isUnsigned);
  }

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
    if (isa<arith::SIToFPOp, arith::ExtSIOp>(made))
      return scalar(op, made->getOperand(0), point, /*isUnsigned=*/false);
    if (isa<arith::UIToFPOp, arith::ExtUIOp>(made))
      return scalar(op, made->getOperand(0), point, /*isUnsigned=*/true);
    if (isa<arith::ExtFOp, arith::TruncFOp>(made))
      return scalar(op, made->getOperand(0), point, isUnsigned);
    std::optional<Kind> kind = kindOf(made);
    if (!kind)
      return nullptr;
    Formula left = scalar(op, made->getOperand(0), point, isUnsigned);
    Formula right = scalar(op, made->getOperand(1), point, isUnsigned);
    return left && right ? combine(*kind, left, right) : nullptr;
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

  /// Arithmetic on integers of fewer bits might wrap around.
  static std::optional<Kind> kindOf(Operation *op) {
    if (isa<arith::AddFOp>(op))
      return Kind::Add;
    if (isa<arith::SubFOp>(op))
      return Kind::Sub;
    if (isa<arith::MulFOp>(op))
      return Kind::Mul;
    if (isa<arith::DivFOp>(op))
      return Kind::Div;
    bool isWide = op->getNumResults() == 1 &&
                  op->getResult(0).getType().isIntOrFloat() &&
                  op->getResult(0).getType().getIntOrFloatBitWidth() >= 16;
    if (isWide && isa<arith::AddIOp>(op))
      return Kind::Add;
    if (isWide && isa<arith::SubIOp>(op))
      return Kind::Sub;
    return std::nullopt;
  }
};

//===----------------------------------------------------------------------===//
// The integer in a formula
//===----------------------------------------------------------------------===//

void collectElements(const FormulaNode &node,
                     SmallVectorImpl<const TensorElement *> &elements) {
  if (node.kind == Kind::Element)
    elements.push_back(&node.element);
  for (const Formula &part : {node.left, node.right})
    if (part)
      collectElements(*part, elements);
}

Type elementType(const TensorElement &element) {
  return cast<RankedTensorType>(element.tensor.getType()).getElementType();
}

bool isFloatOfEightBits(const TensorElement &element) {
  return ir::QuantizedWeight::codeOf(elementType(element)) !=
         ir::QuantizedWeight::Code::Integer;
}

/// Whether a weight's elements can be these.
bool isFewBits(const TensorElement &element) {
  auto type = dyn_cast<IntegerType>(elementType(element));
  return isFloatOfEightBits(element) ||
         (type && type.getWidth() >= 8 && type.getWidth() <= 32);
}

/// Rewrites a formula as one that is linear in `integer`.
class LinearForm {
public:
  explicit LinearForm(const TensorElement *integer) : integer(integer) {}

  std::optional<WeightFormula> of(const Formula &formula) {
    if (formula->kind == Kind::Element && &formula->element == integer) {
      WeightFormula found;
      found.integer = *integer;
      return found;
    }
    if (!formula->left)
      return std::nullopt;
    bool left = has(*formula->left), right = has(*formula->right);
    if (left == right)
      return std::nullopt;
    auto inner = of(left ? formula->left : formula->right);
    if (!inner)
      return std::nullopt;
    const Formula &other = left ? formula->right : formula->left;
    switch (formula->kind) {
    case Kind::Mul:
      scale(*inner, Kind::Mul, other);
      return inner;
    case Kind::Div:
      if (right)
        return std::nullopt;
      scale(*inner, Kind::Div, other);
      return inner;
    case Kind::Add:
      add(*inner, Kind::Add, other);
      return inner;
    case Kind::Sub:
      if (right)
        scale(*inner, Kind::Mul, constantFormula(-1));
      add(*inner, right ? Kind::Add : Kind::Sub, other);
      return inner;
    default:
      return std::nullopt;
    }
  }

private:
  const TensorElement *integer;

  bool has(const FormulaNode &node) const {
    return (node.kind == Kind::Element && &node.element == integer) ||
           (node.left && (has(*node.left) || has(*node.right)));
  }

  static void scale(WeightFormula &form, Kind kind, const Formula &factor) {
    Formula one = constantFormula(1);
    if (!form.scale)
      form.scale = kind == Kind::Mul ? factor : combine(kind, one, factor);
    else
      form.scale = combine(kind, form.scale, factor);
    if (form.offset)
      form.offset = combine(kind, form.offset, factor);
  }

  /// A number subtracted from the integer itself moves the center.
  static void add(WeightFormula &form, Kind kind, const Formula &term) {
    bool isWhole = term->kind == Kind::Constant &&
                   term->number == static_cast<int32_t>(term->number);
    if (!form.scale && !form.offset && isWhole) {
      form.center += kind == Kind::Add ? -term->number : term->number;
      return;
    }
    if (!form.offset && kind == Kind::Add) {
      form.offset = term;
      return;
    }
    Formula before = form.offset ? form.offset : constantFormula(0);
    form.offset = combine(kind, before, term);
  }
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

int64_t valueAt(AffineExpr expr, int64_t depth) {
  if (isa<AffineDimExpr>(expr))
    return depth;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t left = valueAt(binary.getLHS(), depth);
  int64_t right = valueAt(binary.getRHS(), depth);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return left + right;
  case AffineExprKind::Mul:
    return left * right;
  case AffineExprKind::Mod:
    return left % right;
  default:
    return left / right;
  }
}

/// The largest group whose depths all have the same scale and offset; none if
/// that cannot be shown for all columns.
std::optional<int64_t> groupOf(ArrayRef<const TensorElement *> parameters,
                               int64_t depths) {
  int64_t group = 0;
  for (const TensorElement *parameter : parameters)
    for (AffineExpr expr : parameter->index) {
      if (!expr.isFunctionOfDim(1))
        continue;
      if (expr.isFunctionOfDim(0))
        return std::nullopt;
      for (int64_t depth = 1; depth < depths; ++depth)
        if (valueAt(expr, depth) != valueAt(expr, depth - 1))
          group = std::gcd(group, depth);
    }
  return group ? group : depths;
}

/// The only element whose tensor has an integer for each column and depth. Null
/// if there is none, or more than one.
const TensorElement *findInteger(ArrayRef<const TensorElement *> elements,
                                 int64_t count) {
  const TensorElement *found = nullptr;
  for (const TensorElement *element : elements) {
    auto type = cast<RankedTensorType>(element->tensor.getType());
    if (!isFewBits(*element) || !type.hasStaticShape() ||
        type.getNumElements() != count)
      continue;
    if (found)
      return nullptr;
    found = element;
  }
  return found;
}

} // namespace

bool WeightFormula::isSmallFloat() const { return isFloatOfEightBits(integer); }

std::optional<WeightFormula>
WeightFormula::find(Value operand, AffineMap map, int64_t columns,
                    int64_t depths, SteadyValues &steady, std::string &why) {
  Formula formula = FormulaReader(operand.getContext())
                        .read(operand, map.getResults(), /*isUnsigned=*/false);
  SmallVector<const TensorElement *> elements;
  collectElements(*formula, elements);
  for (const TensorElement *element : elements)
    if (!steady.contains(element->tensor)) {
      why = "the weight depends on an input that is neither frozen nor watched";
      return std::nullopt;
    }
  const TensorElement *integer = findInteger(elements, columns * depths);
  if (!integer) {
    why = "the weight is no formula of one integer for each element";
    return std::nullopt;
  }
  std::optional<WeightFormula> found = LinearForm(integer).of(formula);
  if (!found) {
    why = "the weight is not linear in its integers";
    return std::nullopt;
  }
  llvm::erase(elements, integer);
  std::optional<int64_t> group = groupOf(elements, depths);
  if (!group) {
    why = "scales or zero points have no groups of depths";
    return std::nullopt;
  }
  found->group = *group;
  found->range = found->isSmallFloat()
                     ? allIntegers(8, /*isUnsigned=*/true)
                     : rangeOfElements(integer->tensor, integer->isUnsigned);
  return found;
}

} // namespace schedule
} // namespace anabranch
