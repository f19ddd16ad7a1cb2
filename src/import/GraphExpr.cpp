//===- GraphExpr.cpp - sizes of a graph description -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/GraphExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace anabranch {
namespace importer {

void GraphExpr::define(llvm::StringRef symbol, Value value) {
  Value &slot = symbols[symbol];
  if (!slot)
    slot = value;
}

OpFoldResult GraphExpr::build(const llvm::json::Value &expr, OpBuilder &builder,
                              Location loc) const {
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
  emitError(loc) << "a size must be an integer, a symbol or a list";
  return {};
}

namespace {
/// What the operators of an expression are made of.
struct Arithmetic {
  OpBuilder &builder;
  Location loc;

  template <typename OpT> Value make(Value a, Value b) {
    return builder.createOrFold<OpT>(loc, a, b);
  }
  Value constant(int64_t value) {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  }
  /// Sizes are divided by positive numbers only; this keeps a zero from
  /// trapping in the function that computes them.
  Value divisor(Value value) {
    return make<arith::MaxSIOp>(value, constant(1));
  }
  /// Rounds down, as Python does.
  Value mod(Value a, Value b) {
    b = divisor(b);
    Value floor = make<arith::FloorDivSIOp>(a, b);
    return make<arith::SubIOp>(a, make<arith::MulIOp>(floor, b));
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
  Value apply(llvm::StringRef name, Value a, Value b) {
    if (name == "add")
      return make<arith::AddIOp>(a, b);
    if (name == "sub")
      return make<arith::SubIOp>(a, b);
    if (name == "mul")
      return make<arith::MulIOp>(a, b);
    if (name == "floordiv")
      return make<arith::FloorDivSIOp>(a, divisor(b));
    if (name == "ceildiv")
      return make<arith::CeilDivSIOp>(a, divisor(b));
    if (name == "mod")
      return mod(a, b);
    if (name == "min")
      return make<arith::MinSIOp>(a, b);
    if (name == "max")
      return make<arith::MaxSIOp>(a, b);
    if (name == "pow")
      return pow(a, b);
    return {};
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
  if (expr.size() != 3 || !expr[0].getAsString())
    return refuse();
  OpFoldResult a = build(expr[1], builder, loc);
  OpFoldResult b = a ? build(expr[2], builder, loc) : OpFoldResult();
  if (!a || !b)
    return {};
  Arithmetic arithmetic{builder, loc};
  Value value = arithmetic.apply(
      *expr[0].getAsString(), getValueOrCreateConstantIndexOp(builder, loc, a),
      getValueOrCreateConstantIndexOp(builder, loc, b));
  if (!value)
    return refuse();
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getIndexAttr(*constant);
  return value;
}

} // namespace importer
} // namespace anabranch
