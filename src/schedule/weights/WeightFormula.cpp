//===- WeightFormula.cpp - how a weight is dequantised --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/WeightFormula.h"

#include "schedule/weights/FormulaReader.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace schedule {

using ir::QuantizedWeight;
using Kind = FormulaNode::Kind;

namespace {

/// The nodes that read tensors.
void collectReads(const FormulaNode &node,
                  SmallVectorImpl<const FormulaNode *> &reads) {
  if (node.kind == Kind::Element || node.kind == Kind::Chosen)
    reads.push_back(&node);
  for (const Formula &part : {node.left, node.right})
    if (part)
      collectReads(*part, reads);
}

/// Whether a weight's elements can be these.
bool isFewBits(const FormulaNode &read) {
  Type element = elementTypeOf(read.element.tensor);
  auto type = dyn_cast<IntegerType>(element);
  return QuantizedWeight::codeOf(element) != QuantizedWeight::Code::Integer ||
         (type && type.getWidth() >= 8 && type.getWidth() <= 32) ||
         read.kind == Kind::Chosen;
}

/// Rewrites a formula as one that is linear in `integer`.
class LinearForm {
public:
  explicit LinearForm(const FormulaNode *integer) : integer(integer) {}

  std::optional<WeightFormula> of(const Formula &formula) {
    if (formula.get() == integer) {
      WeightFormula found;
      found.integer = integer->element;
      found.table = integer->table;
      return found;
    }
    if (!formula->left || !formula->right)
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
  const FormulaNode *integer;

  bool has(const FormulaNode &node) const {
    return &node == integer || (node.left && has(*node.left)) ||
           (node.right && has(*node.right));
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

/// Collects the terms of a sum that depend on `depth`, one of the dimensions of
/// a formula. False if one depends on the column, too.
bool collectDepthTerms(AffineExpr expr, unsigned depth,
                       SmallVectorImpl<AffineExpr> &terms) {
  if (!expr.isFunctionOfDim(depth))
    return true;
  if (!expr.isFunctionOfDim(0)) {
    terms.push_back(expr);
    return true;
  }
  auto sum = dyn_cast<AffineBinaryOpExpr>(expr);
  return sum && sum.getKind() == AffineExprKind::Add &&
         collectDepthTerms(sum.getLHS(), depth, terms) &&
         collectDepthTerms(sum.getRHS(), depth, terms);
}

constexpr unsigned depthDim = 1, placeDim = 2;

/// Whether elements that a formula reads depend on one of its dimensions.
bool dependOn(unsigned dim, ArrayRef<const FormulaNode *> reads) {
  return llvm::any_of(reads, [&](const FormulaNode *read) {
    return llvm::any_of(read->element.index, [&](AffineExpr expr) {
      return expr.isFunctionOfDim(dim);
    });
  });
}

/// The largest group of neighbours in `dim`, depths or places, that all have
/// the same scale and offset; none if that cannot be shown for all columns.
std::optional<int64_t> groupOf(ArrayRef<const FormulaNode *> parameters,
                               unsigned dim, int64_t depths) {
  SmallVector<AffineExpr> terms;
  for (const FormulaNode *parameter : parameters)
    for (AffineExpr expr : parameter->element.index)
      if (!collectDepthTerms(expr, dim, terms))
        return std::nullopt;
  int64_t group = 0;
  for (AffineExpr term : terms)
    for (int64_t depth = 1; depth < depths; ++depth)
      if (valueAt(term, depth) != valueAt(term, depth - 1))
        group = std::gcd(group, depth);
  return group ? group : depths;
}

/// The only read of a tensor that has an integer for each column and depth.
/// Null if there is none, or more than one.
const FormulaNode *findInteger(ArrayRef<const FormulaNode *> reads,
                               int64_t count) {
  const FormulaNode *found = nullptr;
  for (const FormulaNode *read : reads) {
    auto type = cast<RankedTensorType>(read->element.tensor.getType());
    if (!isFewBits(*read) || !type.hasStaticShape() ||
        type.getNumElements() != count)
      continue;
    if (found)
      return nullptr;
    found = read;
  }
  return found;
}

IntegerRange rangeOf(const WeightFormula &formula) {
  const TensorElement &integer = formula.integer;
  switch (formula.code()) {
  case QuantizedWeight::Code::Integer:
    return rangeOfElements(integer.tensor, integer.isUnsigned);
  case QuantizedWeight::Code::Table:
    return {0,
            cast<RankedTensorType>(formula.table.getType()).getDimSize(0) - 1};
  default:
    return allIntegers(8, /*isUnsigned=*/true);
  }
}

} // namespace

QuantizedWeight::Code WeightFormula::code() const {
  return table ? QuantizedWeight::Code::Table
               : QuantizedWeight::codeOf(elementTypeOf(integer.tensor));
}

std::optional<WeightFormula>
WeightFormula::find(Value operand, AffineMap map, int64_t columns,
                    int64_t depths, SteadyValues &steady, std::string &why) {
  ReadFormula read = readFormula(operand, map);
  SmallVector<const FormulaNode *> reads;
  collectReads(*read.formula, reads);
  for (const FormulaNode *node : reads)
    if (!steady.contains(node->element.tensor) ||
        (node->table && !steady.contains(node->table))) {
      why = "the weight depends on an input that is neither frozen nor watched";
      return std::nullopt;
    }
  const FormulaNode *integer = findInteger(reads, columns * depths);
  if (!integer) {
    why = "the weight is no formula of one integer for each element";
    return std::nullopt;
  }
  std::optional<WeightFormula> found = LinearForm(integer).of(read.formula);
  if (!found) {
    why = "the weight is not linear in its integers";
    return std::nullopt;
  }
  llvm::erase(reads, integer);
  bool isOrdered = dependOn(placeDim, reads);
  if (isOrdered && dependOn(depthDim, reads)) {
    why = "scales and zero points have groups of depths in two orders";
    return std::nullopt;
  }
  std::optional<int64_t> group =
      groupOf(reads, isOrdered ? placeDim : depthDim, depths);
  if (!group) {
    why = "scales or zero points have no groups of depths";
    return std::nullopt;
  }
  found->group = *group;
  if (isOrdered)
    found->order = read.order;
  else
    llvm::erase_if(read.assumptions, [](const Assumption &assumption) {
      return assumption.value.isFunctionOfDim(placeDim);
    });
  found->range = rangeOf(*found);
  found->assumptions = std::move(read.assumptions);
  return found;
}

} // namespace schedule
} // namespace anabranch
