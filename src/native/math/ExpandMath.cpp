//===- ExpandMath.cpp - math operations become arithmetic -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/ExpandMath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "native/math/DoubleMath.h"
#include "native/math/FloatMath.h"
#include "native/math/NormalCdf.h"
#include "native/math/NormalPower.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

/// The formula of an operation, or null if it has none.
const MathFormula *formulaOf(Operation *op) {
  StringRef name = op->getName().stripDialect();
  for (ArrayRef<MathFormula> formulas : {floatFormulas(), doubleFormulas()})
    for (const MathFormula &formula : formulas)
      if (formula.operation == name)
        return &formula;
  return nullptr;
}

/// The name of a function on this type, such as "exp_v16f32".
std::string functionName(StringRef name, Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "anabranch_" << name << "_";
  if (auto vector = dyn_cast<VectorType>(type)) {
    for (int64_t size : vector.getShape())
      stream << "v" << size;
    type = vector.getElementType();
  }
  stream << type;
  return text;
}

class MathExpander {
public:
  MathExpander(ModuleOp module, const TargetInfo &target)
      : module(module), target(target), builder(module.getContext()) {}

  LogicalResult run() {
    SmallVector<Operation *> operations;
    module.walk([&](Operation *op) {
      if (op->getName().getDialectNamespace() == "math")
        operations.push_back(op);
    });
    for (Operation *op : operations)
      if (failed(expand(op)))
        return failure();
    return success();
  }

private:
  ModuleOp module;
  const TargetInfo &target;
  OpBuilder builder;

  LogicalResult expand(Operation *op) {
    if (isa<math::IPowIOp>(op))
      return replace(op, callOutlined(op, [&](Value a, Value b) {
                       return integerPower(op->getLoc(), a, b);
                     }));
    if (isa<math::FPowIOp>(op))
      return expandMixedPower(op);
    if (auto erf = dyn_cast<math::ErfOp>(op))
      if (replaceByNormalCdf(erf, builder, target))
        return success();
    if (isa<math::FmaOp>(op))
      return expandFma(op);
    const MathFormula *formula = formulaOf(op);
    if (!formula)
      return success();
    auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
    if (vector && (vector.getRank() != 1 || vector.isScalable()))
      return op->emitOpError("only scalars and vectors of rank 1 have machine "
                             "code");
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    if (element.isF16() || element.isBF16())
      return widen(op);
    if (element.isF32() || !formula->libm)
      return expandFloat(op, *formula);
    if (element.isF64())
      return expandDouble(op, *formula);
    return op->emitOpError("has no machine code for ") << element;
  }

  LogicalResult replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return success();
  }

  LogicalResult expandFma(Operation *op) {
    if (target.isa().fusesMultiplyAdd())
      return success();
    builder.setInsertionPoint(op);
    MathBuilder m(builder, op->getLoc(), op->getResult(0).getType(), target);
    return replace(
        op, m.fma(op->getOperand(0), op->getOperand(1), op->getOperand(2)));
  }

  /// Computes an operation on f16 or bf16 in f32.
  LogicalResult widen(Operation *op) {
    builder.setInsertionPoint(op);
    MathBuilder narrow(builder, op->getLoc(), op->getResult(0).getType(),
                       target);
    Type wide = narrow.withElement(builder.getF32Type());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(
          builder.create<arith::ExtFOp>(op->getLoc(), wide, operand));
    OperationState state(op->getLoc(), op->getName(), operands, wide);
    Operation *inF32 = builder.create(state);
    Value result = builder.create<arith::TruncFOp>(op->getLoc(), narrow.type,
                                                   inF32->getResult(0));
    (void)replace(op, result);
    return expand(inF32);
  }

  LogicalResult expandFloat(Operation *op, const MathFormula &formula) {
    if (auto power = dyn_cast<math::Exp2Op>(op)) {
      builder.setInsertionPoint(op);
      MathBuilder m(builder, op->getLoc(), op->getResult(0).getType(), target);
      if (Value normal = expandNormalPower(m, power))
        return replace(op, normal);
    }
    auto body = [&](Value a, Value b) {
      MathBuilder m(builder, op->getLoc(), a.getType(), target);
      Value result =
          formula.unary ? formula.unary(m, a) : formula.binary(m, a, b);
      return formula.way == MathFormula::Limited
                 ? guardLarge(m, a, result, formula)
                 : result;
    };
    if (formula.way != MathFormula::Inline)
      return replace(op, callOutlined(op, body));
    builder.setInsertionPoint(op);
    return replace(op, body(op->getOperand(0), Value()));
  }

  LogicalResult expandDouble(Operation *op, const MathFormula &formula) {
    return replace(op, callOutlined(op, [&](Value a, Value b) {
                     SmallVector<Value> operands = {a};
                     if (b)
                       operands.push_back(b);
                     return perElement(op->getLoc(), formula.libm, operands);
                   }));
  }

  /// A float to an integer power becomes a power of floats, which is exact for
  /// integers that a float holds.
  LogicalResult expandMixedPower(Operation *op) {
    builder.setInsertionPoint(op);
    Value exponent = builder.create<arith::SIToFPOp>(
        op->getLoc(), op->getOperand(0).getType(), op->getOperand(1));
    Operation *power =
        builder.create<math::PowFOp>(op->getLoc(), op->getOperand(0), exponent);
    (void)replace(op, power->getResult(0));
    return expand(power);
  }

  /// Calls a private function of the module that computes `op`. `body` writes
  /// the function when its first caller needs it.
  Value callOutlined(Operation *op,
                     llvm::function_ref<Value(Value, Value)> body) {
    StringRef opName = op->getName().stripDialect();
    std::string name = functionName(opName, op->getOperand(0).getType());
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function) {
      builder.setInsertionPointToEnd(module.getBody());
      function = builder.create<func::FuncOp>(
          module.getLoc(), name,
          builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
      // Every object has its own copy, so the linker must not see the function.
      function.setPrivate();
      function->setAttr("llvm.linkage",
                        LLVM::LinkageAttr::get(builder.getContext(),
                                               LLVM::Linkage::Internal));
      Block *entry = function.addEntryBlock();
      builder.setInsertionPointToStart(entry);
      Value second =
          entry->getNumArguments() > 1 ? Value(entry->getArgument(1)) : Value();
      Value result = body(entry->getArgument(0), second);
      builder.create<func::ReturnOp>(op->getLoc(), result);
    }
    builder.setInsertionPoint(op);
    return builder
        .create<func::CallOp>(op->getLoc(), function, op->getOperands())
        .getResult(0);
  }

  /// Calls a function of libm for each element.
  Value perElement(Location loc, const std::string &name,
                   ArrayRef<Value> operands) {
    Type type = operands[0].getType();
    Type element = getElementTypeOrSelf(type);
    func::FuncOp callee = declare(name, element, operands.size());
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return builder.create<func::CallOp>(loc, callee, operands).getResult(0);
    Value zero = builder.create<arith::ConstantIndexOp>(loc, 0);
    Value one = builder.create<arith::ConstantIndexOp>(loc, 1);
    Value count =
        builder.create<arith::ConstantIndexOp>(loc, vector.getDimSize(0));
    auto loop = builder.create<scf::ForOp>(
        loc, zero, count, one, operands[0],
        [&](OpBuilder &b, Location loc, Value i, ValueRange carried) {
          SmallVector<Value> scalars;
          for (Value operand : operands)
            scalars.push_back(
                b.create<vector::ExtractElementOp>(loc, operand, i));
          Value value =
              b.create<func::CallOp>(loc, callee, scalars).getResult(0);
          Value next =
              b.create<vector::InsertElementOp>(loc, value, carried[0], i);
          b.create<scf::YieldOp>(loc, next);
        });
    return loop.getResult(0);
  }

  func::FuncOp declare(StringRef name, Type element, size_t operands) {
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      return function;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto function = builder.create<func::FuncOp>(
        module.getLoc(), name,
        builder.getFunctionType(SmallVector<Type>(operands, element),
                                {element}));
    function.setPrivate();
    return function;
  }

  /// `result`; if some finite argument is beyond the limit, libm's result
  /// instead.
  Value guardLarge(const MathBuilder &m, Value x, Value result,
                   const MathFormula &formula) {
    Value a = m.abs(x);
    Value beyond = m.both(m.less(m.number(trigonometricLimit), a),
                          m.less(a, m.infinity()));
    result = m.select(m.equal(a, m.infinity()), m.nan(), result);
    if (isa<VectorType>(x.getType()))
      beyond = builder.create<vector::ReductionOp>(
          m.loc, vector::CombiningKind::OR, beyond);
    auto branch = builder.create<scf::IfOp>(
        m.loc, beyond,
        [&](OpBuilder &b, Location loc) {
          OpBuilder::InsertionGuard guard(builder);
          builder.restoreInsertionPoint(b.saveInsertionPoint());
          Value exact = perElement(loc, std::string(formula.libm) + "f", x);
          b.restoreInsertionPoint(builder.saveInsertionPoint());
          b.create<scf::YieldOp>(loc, exact);
        },
        [&](OpBuilder &b, Location loc) {
          b.create<scf::YieldOp>(loc, result);
        });
    return branch.getResult(0);
  }

  /// Repeated squaring, which wraps around. A negative exponent gives 0, except
  /// for the bases 1 and -1.
  Value integerPower(Location loc, Value base, Value exponent);
};

Value MathExpander::integerPower(Location loc, Value base, Value exponent) {
  Type type = base.getType();
  auto constant = [&](int64_t value) -> Value {
    TypedAttr attr = builder.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return builder.create<arith::ConstantOp>(loc, attr);
  };
  Value zero = constant(0), one = constant(1);
  auto is = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return builder.create<arith::CmpIOp>(loc, predicate, a, b);
  };
  auto select = [&](Value condition, Value a, Value b) -> Value {
    return builder.create<arith::SelectOp>(loc, condition, a, b);
  };
  auto eq = arith::CmpIPredicate::eq;
  unsigned bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  Value low = builder.create<arith::ConstantIndexOp>(loc, 0);
  Value high = builder.create<arith::ConstantIndexOp>(loc, bits);
  Value step = builder.create<arith::ConstantIndexOp>(loc, 1);
  auto loop = builder.create<scf::ForOp>(
      loc, low, high, step, ValueRange{one, base, exponent},
      [&](OpBuilder &b, Location loc, Value, ValueRange carried) {
        Value bit = b.create<arith::AndIOp>(loc, carried[2], one);
        Value isSet =
            b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, bit, zero);
        Value product = b.create<arith::MulIOp>(loc, carried[0], carried[1]);
        Value result =
            b.create<arith::SelectOp>(loc, isSet, product, carried[0]);
        Value square = b.create<arith::MulIOp>(loc, carried[1], carried[1]);
        Value rest = b.create<arith::ShRUIOp>(loc, carried[2], one);
        b.create<scf::YieldOp>(loc, ValueRange{result, square, rest});
      });
  Value isNegative = is(arith::CmpIPredicate::slt, exponent, zero);
  Value odd = is(eq, builder.create<arith::AndIOp>(loc, exponent, one), one);
  Value minusOne = constant(-1);
  Value unit = select(odd, minusOne, one);
  Value inverse = select(is(eq, base, one), one,
                         select(is(eq, base, minusOne), unit, zero));
  return select(isNegative, inverse, loop.getResult(0));
}

} // namespace

LogicalResult expandMath(ModuleOp module, const TargetInfo &target) {
  return MathExpander(module, target).run();
}

} // namespace native
} // namespace anabranch
