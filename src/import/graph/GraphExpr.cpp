//===- GraphExpr.cpp - sizes of a graph description -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/GraphExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace anabranch {
namespace importer {

static bool isReal(OpFoldResult number) {
  if (auto value = dyn_cast<Value>(number))
    return value.getType().isF64();
  return isa<FloatAttr>(cast<Attribute>(number));
}

void GraphExpr::define(llvm::StringRef symbol, Value value) {
  Value &slot = symbols[symbol];
  if (!slot)
    slot = value;
}

OpFoldResult GraphExpr::build(const llvm::json::Value &expr, OpBuilder &builder,
                              Location loc) const {
  OpFoldResult made = buildNumber(expr, builder, loc);
  if (!made || !isReal(made))
    return made;
  emitError(loc) << "a size is a float: " << llvm::formatv("{0}", expr).str();
  return {};
}

OpFoldResult GraphExpr::buildNumber(const llvm::json::Value &expr,
                                    OpBuilder &builder, Location loc) const {
  if (std::optional<int64_t> integer = expr.getAsInteger())
    return builder.getIndexAttr(*integer);
  if (auto symbol = expr.getAsString()) {
    if (Value value = symbols.lookup(*symbol))
      return value;
    emitError(loc) << "no input defines the symbol '" << *symbol << "'";
    return {};
  }
  if (const llvm::json::Array *list = expr.getAsArray())
    return combine(*list, builder, loc);
  if (const llvm::json::Object *object = expr.getAsObject())
    if (std::optional<double> number = object->getNumber("float"))
      return OpFoldResult(builder.getF64FloatAttr(*number));
  emitError(loc) << "a size must be an integer, a symbol or a list";
  return {};
}

namespace {
/// Makes the operations of an expression's operators.
struct Arithmetic {
  OpBuilder &builder;
  Location loc;

  template <typename OpT> Value make(Value a, Value b) {
    return builder.createOrFold<OpT>(loc, a, b);
  }
  Value constant(int64_t value) {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  }
  Value isEqual(Value value, int64_t number) {
    return builder.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq,
                                               value, constant(number));
  }
  Value select(Value condition, Value yes, Value no) {
    return builder.createOrFold<arith::SelectOp>(loc, condition, yes, no);
  }
  /// No division may trap in the function that computes sizes: zero divides as
  /// one does, and minus one negates.
  template <typename OpT> Value divide(Value a, Value b) {
    if (isa_and_nonnull<tensor::DimOp>(b.getDefiningOp()))
      return make<OpT>(a, make<arith::MaxSIOp>(b, constant(1)));
    std::optional<int64_t> known = getConstantIntValue(b);
    if (known && *known > 0)
      return make<OpT>(a, b);
    Value negates = isEqual(b, -1);
    Value traps = make<arith::OrIOp>(negates, isEqual(b, 0));
    Value quotient = make<OpT>(a, select(traps, constant(1), b));
    return select(negates, make<arith::SubIOp>(constant(0), a), quotient);
  }
  /// The remainder for a quotient that is rounded down, as in Python.
  Value mod(Value a, Value b) {
    return make<arith::SubIOp>(a, make<arith::MulIOp>(floorDiv(a, b), b));
  }
  /// Null unless the exponent is a small constant.
  Value pow(Value base, Value exponent) {
    std::optional<int64_t> count = getConstantIntValue(exponent);
    if (!count || *count < 0 || *count > 62)
      return {};
    Value result = constant(1);
    for (int64_t i = 0; i < *count; ++i)
      result = make<arith::MulIOp>(result, base);
    return result;
  }
  /// One where a relation holds, else zero.
  Value truth(Value holds) {
    Type index = builder.getIndexType();
    return builder.createOrFold<arith::IndexCastUIOp>(loc, index, holds);
  }
  template <typename OpT, typename Predicate>
  Value compare(Predicate predicate, Value a, Value b) {
    return truth(builder.createOrFold<OpT>(loc, predicate, a, b));
  }
  template <bool OrSame> Value isLess(Value a, Value b) {
    using P = arith::CmpIPredicate;
    return compare<arith::CmpIOp>(OrSame ? P::sle : P::slt, a, b);
  }
  template <bool OrSame> Value isLessReal(Value a, Value b) {
    using P = arith::CmpFPredicate;
    return compare<arith::CmpFOp>(OrSame ? P::OLE : P::OLT, a, b);
  }
  Value isSame(Value a, Value b) {
    return compare<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
  }
  Value isSameReal(Value a, Value b) {
    return compare<arith::CmpFOp>(arith::CmpFPredicate::OEQ, a, b);
  }
  Value floorDiv(Value a, Value b) { return divide<arith::FloorDivSIOp>(a, b); }
  Value ceilDiv(Value a, Value b) { return divide<arith::CeilDivSIOp>(a, b); }

  /// An operator on sizes and on floats; null where it has no meaning.
  struct Operator {
    Value (Arithmetic::*ofSizes)(Value, Value);
    Value (Arithmetic::*ofReals)(Value, Value);
  };
  static Operator find(StringRef name) {
    using A = Arithmetic;
    return llvm::StringSwitch<Operator>(name)
        .Case("add", {&A::make<arith::AddIOp>, &A::make<arith::AddFOp>})
        .Case("sub", {&A::make<arith::SubIOp>, &A::make<arith::SubFOp>})
        .Case("mul", {&A::make<arith::MulIOp>, &A::make<arith::MulFOp>})
        .Case("truediv", {nullptr, &A::make<arith::DivFOp>})
        .Case("floordiv", {&A::floorDiv, nullptr})
        .Case("ceildiv", {&A::ceilDiv, nullptr})
        .Case("mod", {&A::mod, nullptr})
        .Case("min", {&A::make<arith::MinSIOp>, &A::make<arith::MinNumFOp>})
        .Case("max", {&A::make<arith::MaxSIOp>, &A::make<arith::MaxNumFOp>})
        .Case("pow", {&A::pow, nullptr})
        .Case("lt", {&A::isLess<false>, &A::isLessReal<false>})
        .Case("le", {&A::isLess<true>, &A::isLessReal<true>})
        .Case("eq", {&A::isSame, &A::isSameReal})
        .Default({nullptr, nullptr});
  }
  /// If one operand is a float, both become floats, as in Python. Null if the
  /// operator does not take such operands.
  Value apply(StringRef name, Value a, Value b) {
    Operator op = find(name);
    if (name == "truediv" || a.getType().isF64() || b.getType().isF64())
      return op.ofReals ? (this->*op.ofReals)(real(a), real(b)) : Value();
    return op.ofSizes ? (this->*op.ofSizes)(a, b) : Value();
  }
  Value real(Value value) {
    if (value.getType().isF64())
      return value;
    Type word = builder.getI64Type(), f64 = builder.getF64Type();
    value = builder.createOrFold<arith::IndexCastOp>(loc, word, value);
    return builder.createOrFold<arith::SIToFPOp>(loc, f64, value);
  }
  /// The float whose bits an input has.
  Value fromBits(Value bits) {
    Type word = builder.getI64Type(), f64 = builder.getF64Type();
    bits = builder.createOrFold<arith::IndexCastOp>(loc, word, bits);
    return builder.createOrFold<arith::BitcastOp>(loc, f64, bits);
  }
  /// Rounds towards zero, and then away from it if necessary. Every processor
  /// has the conversion and the comparison for that.
  Value rounded(llvm::StringRef name, Value value) {
    Type word = builder.getI64Type();
    Value whole = builder.createOrFold<arith::FPToSIOp>(loc, word, value);
    Value back =
        builder.createOrFold<arith::SIToFPOp>(loc, value.getType(), whole);
    if (name != "trunc") {
      auto beyond = name == "floor" ? arith::CmpFPredicate::OGT
                                    : arith::CmpFPredicate::OLT;
      Value isBeyond =
          builder.createOrFold<arith::CmpFOp>(loc, beyond, back, value);
      Value step = builder.createOrFold<arith::ExtUIOp>(loc, word, isBeyond);
      whole = name == "floor" ? make<arith::SubIOp>(whole, step)
                              : make<arith::AddIOp>(whole, step);
    }
    return builder.createOrFold<arith::IndexCastOp>(loc, builder.getIndexType(),
                                                    whole);
  }
  Value apply(llvm::StringRef name, Value a) {
    if (name == "float")
      return real(a);
    if (name == "bits")
      return fromBits(a);
    if (name != "floor" && name != "ceil" && name != "trunc")
      return {};
    return a.getType().isF64() ? rounded(name, a) : a;
  }
  Value materialized(OpFoldResult number) {
    auto attribute = dyn_cast<Attribute>(number);
    if (auto constant = dyn_cast_or_null<FloatAttr>(attribute))
      return builder.create<arith::ConstantOp>(loc, constant);
    return getValueOrCreateConstantIndexOp(builder, loc, number);
  }
};
} // namespace

OpFoldResult GraphExpr::combine(const llvm::json::Array &expr,
                                OpBuilder &builder, Location loc) const {
  auto refuse = [&]() -> OpFoldResult {
    std::string text =
        llvm::formatv("{0}", llvm::json::Value(llvm::json::Array(expr)));
    emitError(loc) << "no such size: " << text;
    return {};
  };
  if (expr.size() < 2 || expr.size() > 3 || !expr[0].getAsString())
    return refuse();
  Arithmetic arithmetic{builder, loc};
  SmallVector<Value> parts;
  for (size_t i = 1; i < expr.size(); ++i) {
    OpFoldResult part = buildNumber(expr[i], builder, loc);
    if (!part)
      return {};
    parts.push_back(arithmetic.materialized(part));
  }
  llvm::StringRef name = *expr[0].getAsString();
  Value value = parts.size() == 1 ? arithmetic.apply(name, parts[0])
                                  : arithmetic.apply(name, parts[0], parts[1]);
  if (!value)
    return refuse();
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getIndexAttr(*constant);
  FloatAttr number;
  if (matchPattern(value, m_Constant(&number)))
    return OpFoldResult(number);
  return value;
}

} // namespace importer
} // namespace anabranch
