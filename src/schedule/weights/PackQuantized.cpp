//===- PackQuantized.cpp - frozen weights of 4 and 8 bits -----------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %f = generic {dequantise} %q, %s     %p = generic {gather} %q -> panels
//   %0 = contraction %x, %f           ->  %c = generic {gather} %s -> groups
//                                         %v = generic {unpack} %p, %c
//                                         %0 = contraction %x, %v
//
// Where a list gives the depths in groups another order, %p and %c have this
// order, and the contraction reads %x in it (DepthOrder.h).
//
// %p and %c depend on steady values only, so that `initialize` makes them.
// %v is %f again, element by element: whatever kernel the contraction gets can
// read it, and the kernel of quantised products knows it by its mark
// (QuantizedWeight.h).

#include "anabranch/KernelABI.h"
#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "ir/QuantizedWeight.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/weights/PackPass.h"
#include "schedule/weights/Passes.h"
#include "schedule/weights/WeightFormula.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

using ir::QuantizedWeight;

/// Emits the bodies of the generics that compute a weight's packed parts and
/// the weight.
class WeightPacker {
public:
  /// `order` is the depth of each place, or null.
  WeightPacker(OpBuilder &b, Location loc, const WeightFormula &formula,
               const QuantizedWeight &layout, int64_t columns, int64_t depths,
               Value order)
      : b(b), loc(loc), formula(formula), layout(layout), columns(columns),
        depths(depths), order(order) {}

  /// [panels][steps][64][4] bytes.
  Value integers() {
    SmallVector<int64_t> shape = {QuantizedWeight::panels(columns),
                                  layout.steps(depths),
                                  QuantizedWeight::panelColumns, 4};
    return make(shape, b.getI8Type(), [&](ArrayRef<Value> at) {
      auto [column, depth] = placeOf(at);
      Value low = integer(column, depth);
      if (layout.bits == 8)
        return low;
      bool pairs = layout.pairsColumns();
      Value high = integer(pairs ? sum(column, index(4)) : column,
                           pairs ? depth : sum(depth, index(4)));
      Value four = b.create<arith::ConstantOp>(loc, b.getI8IntegerAttr(4));
      high = b.create<arith::ShLIOp>(loc, high, four);
      return b.create<arith::OrIOp>(loc, low, high).getResult();
    });
  }

  /// [panels][groups][64], of the formula's type.
  Value parameters(const Formula &values) {
    SmallVector<int64_t> shape = {QuantizedWeight::panels(columns),
                                  layout.groups(depths),
                                  QuantizedWeight::panelColumns};
    FloatType element = values->type(b);
    return make(shape, element, [&](ArrayRef<Value> at) {
      Value column = sum(product(at[0], QuantizedWeight::panelColumns), at[2]);
      Value value =
          values->emit(b, loc, pointAt(column, product(at[1], layout.group)));
      return narrow(value, element);
    });
  }

  /// The table of 16 f32, of which the last repeats; null if there is none.
  Value table() {
    if (!formula.table)
      return Value();
    int64_t size =
        cast<RankedTensorType>(formula.table.getType()).getDimSize(0);
    return make({QuantizedWeight::tableSize}, b.getF32Type(),
                [&](ArrayRef<Value> at) {
                  Value number = b.create<tensor::ExtractOp>(
                      loc, formula.table, clamped(at[0], size));
                  return toFloat(b, loc, number, /*isUnsigned=*/false);
                });
  }

  /// A weight's parts in memory. All but the integers may be null.
  struct Parts {
    Value packed, table, scale, offset;
  };

  /// The weight as [columns, depths] of `element`.
  Value weight(Type element, const Parts &parts) {
    Value made = make({columns, depths}, element, [&](ArrayRef<Value> at) {
      Value value = unpack(parts, at[0], at[1]);
      Value group = b.create<arith::DivUIOp>(loc, at[1], index(layout.group));
      auto parameter = [&](Value from) -> Value {
        int64_t width = QuantizedWeight::panelColumns;
        Value found = b.create<tensor::ExtractOp>(
            loc, from,
            ValueRange{quotient(at[0], width), group, remainder(at[0], width)});
        if (found.getType().isF32())
          return found;
        return b.create<arith::ExtFOp>(loc, b.getF32Type(), found);
      };
      if (parts.scale)
        value = b.create<arith::MulFOp>(loc, value, parameter(parts.scale));
      if (parts.offset)
        value = b.create<arith::AddFOp>(loc, value, parameter(parts.offset));
      return narrow(value, element);
    });
    ir::setQuantizedWeight(made.getDefiningOp(), layout);
    return made;
  }

private:
  OpBuilder &b;
  Location loc;
  const WeightFormula &formula;
  QuantizedWeight layout;
  int64_t columns, depths;
  Value order;

  Value index(int64_t value) {
    return b.create<arith::ConstantIndexOp>(loc, value);
  }
  Value sum(Value x, Value y) { return b.create<arith::AddIOp>(loc, x, y); }
  Value product(Value x, int64_t factor) {
    return b.create<arith::MulIOp>(loc, x, index(factor));
  }
  Value quotient(Value x, int64_t by) {
    return b.create<arith::DivUIOp>(loc, x, index(by));
  }
  Value remainder(Value x, int64_t by) {
    return b.create<arith::RemUIOp>(loc, x, index(by));
  }
  Value clamped(Value x, int64_t size) {
    return b.create<arith::MinUIOp>(loc, x, index(size - 1));
  }

  /// The column and the depth of a byte, or of its low nibble.
  std::pair<Value, Value> placeOf(ArrayRef<Value> at) {
    Value first = product(at[0], QuantizedWeight::panelColumns);
    Value depth = sum(product(at[1], layout.stepDepths()), at[3]);
    if (!layout.pairsColumns())
      return {sum(first, at[2]), depth};
    // Two words have the eight depths of a pair of columns.
    constexpr int64_t size = QuantizedWeight::groupColumns;
    Value group = product(quotient(at[2], size), size);
    Value column = sum(group, quotient(remainder(at[2], size), 2));
    return {sum(first, column), sum(depth, product(remainder(at[2], 2), 4))};
  }

  /// The position of a byte, and whether its high nibble has the integer.
  struct BytePlace {
    SmallVector<Value> position;
    Value isHigh;
  };
  BytePlace byteOf(Value column, Value depth) {
    constexpr int64_t width = QuantizedWeight::panelColumns,
                      size = QuantizedWeight::groupColumns;
    Value panel = quotient(column, width);
    Value step = quotient(depth, layout.stepDepths());
    Value line = remainder(column, width), place = remainder(depth, 4);
    if (layout.bits == 8)
      return {{panel, step, line, place}, {}};
    Value half = remainder(quotient(depth, 4), 2);
    if (!layout.pairsColumns())
      return {{panel, step, line, place}, half};
    Value pair = sum(product(quotient(line, size), size),
                     product(remainder(line, 4), 2));
    return {{panel, step, sum(pair, half), place},
            remainder(quotient(line, 4), 2)};
  }

  /// A generic that computes each element from its index.
  Value make(ArrayRef<int64_t> shape, Type element,
             llvm::function_ref<Value(ArrayRef<Value>)> body) {
    Value empty = b.create<tensor::EmptyOp>(loc, shape, element);
    SmallVector<utils::IteratorType> loops(shape.size(),
                                           utils::IteratorType::parallel);
    auto fill = [&](OpBuilder &inner, Location at, ValueRange) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(inner.saveInsertionPoint());
      SmallVector<Value> position;
      for (size_t i = 0; i < shape.size(); ++i)
        position.push_back(b.create<linalg::IndexOp>(at, i));
      Value value = body(position);
      b.create<linalg::YieldOp>(at, value);
    };
    return b
        .create<linalg::GenericOp>(
            loc, empty.getType(), ValueRange{}, ValueRange{empty},
            AffineMap(b.getMultiDimIdentityMap(shape.size())), loops, fill)
        .getResult(0);
  }

  /// The element of a column and a place; beyond the last, the last one.
  WeightPoint pointAt(Value column, Value place) {
    column = clamped(column, columns);
    place = clamped(place, depths);
    if (!order)
      return {column, place, place};
    Value depth = b.create<tensor::ExtractOp>(loc, order, place);
    Value none = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(0));
    depth = b.create<arith::MaxSIOp>(loc, depth, none);
    depth = b.create<arith::IndexCastUIOp>(loc, b.getIndexType(), depth);
    return {column, depth, place};
  }

  /// Checks that the frozen lists are as they were when the formula was read.
  void checkAssumptions(const WeightPoint &at) {
    for (const Assumption &assumption : formula.assumptions)
      check(assumption.emit(b, loc, at));
    if (!order)
      return;
    Value depth = b.create<tensor::ExtractOp>(loc, order, at.place);
    Value none = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(0));
    check(b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sge, depth, none));
  }

  /// The integer minus the lowest of its range, or the bits of the float, as
  /// i8.
  Value integer(Value column, Value place) {
    WeightPoint at = pointAt(column, place);
    Value value = formula.integer.extract(b, loc, at);
    checkAssumptions(at);
    if (layout.floatType(b.getContext()))
      return b.create<arith::BitcastOp>(loc, b.getI8Type(), value);
    // A frozen argument may change after its range was seen, so initialize
    // checks it, and whatever is a position in a table.
    if (formula.table || rangeOfArgument(formula.integer.tensor))
      check(isInRange(value));
    if (value.getType() != b.getI8Type())
      value = b.create<arith::TruncIOp>(loc, b.getI8Type(), value);
    // The subtraction may wrap around; the unsigned result is right all the
    // same.
    auto lowest = static_cast<int8_t>(formula.range.low);
    Value low = b.create<arith::ConstantOp>(loc, b.getI8IntegerAttr(lowest));
    return b.create<arith::SubIOp>(loc, value, low);
  }

  void check(Value condition) {
    b.create<ir::CheckOp>(
        loc, condition,
        b.getI32IntegerAttr(ANABRANCH_KERNEL_WEIGHT_OUT_OF_RANGE));
  }

  /// Whether an integer is in the range that the layout is made for.
  Value isInRange(Value value) {
    auto compare = [&](arith::CmpIPredicate predicate, int64_t end) -> Value {
      Value number = b.create<arith::ConstantOp>(
          loc, b.getIntegerAttr(value.getType(), end));
      return b.create<arith::CmpIOp>(loc, predicate, value, number);
    };
    using Predicate = arith::CmpIPredicate;
    bool isUnsigned = formula.integer.isUnsigned;
    Value above = compare(isUnsigned ? Predicate::uge : Predicate::sge,
                          formula.range.low);
    Value below = compare(isUnsigned ? Predicate::ule : Predicate::sle,
                          formula.range.high);
    return b.create<arith::AndIOp>(loc, above, below);
  }

  /// The integer of the weight minus the center, or the float that it stands
  /// for, as f32.
  Value unpack(const Parts &parts, Value column, Value depth) {
    BytePlace at = byteOf(column, depth);
    Value byte = b.create<tensor::ExtractOp>(loc, parts.packed, at.position);
    if (Type small = layout.floatType(b.getContext()))
      return b.create<arith::ExtFOp>(
          loc, b.getF32Type(),
          Value(b.create<arith::BitcastOp>(loc, small, byte)));
    Value word = b.create<arith::ExtUIOp>(loc, b.getI32Type(), byte);
    if (layout.bits == 4) {
      Value shift = b.create<arith::IndexCastOp>(loc, b.getI32Type(),
                                                 product(at.isHigh, 4));
      word = b.create<arith::ShRUIOp>(loc, word, shift);
      word = b.create<arith::AndIOp>(
          loc, word, b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(15)));
    }
    if (parts.table) {
      Value position =
          b.create<arith::IndexCastUIOp>(loc, b.getIndexType(), word);
      return b.create<tensor::ExtractOp>(loc, parts.table, position);
    }
    Value center = b.create<arith::ConstantOp>(
        loc, b.getI32IntegerAttr(static_cast<int32_t>(layout.center)));
    word = b.create<arith::SubIOp>(loc, word, center);
    return b.create<arith::SIToFPOp>(loc, b.getF32Type(), word);
  }

  Value narrow(Value value, Type element) {
    if (element == value.getType())
      return value;
    return b.create<arith::TruncFOp>(loc, element, value);
  }
};

/// Whether the elements of a tensor of floats are signed bytes.
bool isMadeOfBytes(Value tensor) {
  auto generic = lookThroughReshapes(tensor).getDefiningOp<linalg::GenericOp>();
  if (!generic || generic.getNumDpsInputs() != 1 ||
      generic.getNumResults() != 1 || generic.getNumReductionLoops() != 0)
    return false;
  Value element = generic.getBody()->getTerminator()->getOperand(0);
  // All bytes are numbers of the narrow floats.
  if (auto narrow = element.getDefiningOp<arith::TruncFOp>())
    element = narrow.getIn();
  auto number = element.getDefiningOp<arith::SIToFPOp>();
  return number && number.getIn().getType().isInteger(8) &&
         number.getIn() == generic.getBody()->getArgument(0);
}

class QuantizedPacker {
public:
  explicit QuantizedPacker(func::FuncOp main)
      : b(main.getContext()), steady(main) {}

  void pack(linalg::GenericOp op, const WeightRole &role) {
    OpOperand &operand = op->getOpOperand(role.operand);
    std::string why;
    Packed packed = find(op, operand, role, why);
    auto depth = depthOfOther(op, role);
    if (packed.order && !depth) {
      why = "the other operand has its depths in several dimensions";
      packed = {};
    }
    if (!packed.weight) {
      if (isQuantized)
        ir::explainRefusal(op.getLoc(), "kept in its few bits", why);
      return;
    }
    replaceOperand(op, role.operand, packed.weight, {role.column, role.depth});
    if (packed.order)
      putInOrder(op, *depth, packed.order);
    multiplyNarrow(op, role);
  }

private:
  OpBuilder b;
  SteadyValues steady;
  /// A weight, and the depth of each of its places if they have another order.
  struct Packed {
    Value weight, order;
  };
  DenseMap<std::tuple<Value, AffineMap, int64_t>, Packed> made;
  bool isQuantized = false;

  /// A dimension of an operand.
  struct Dimension {
    unsigned operand, number;
  };

  /// The dimension of the other operand that has the depths; none if several
  /// have them.
  static std::optional<Dimension> depthOfOther(linalg::GenericOp op,
                                               const WeightRole &role) {
    unsigned other = 1 - role.operand;
    AffineMap map = op.getIndexingMapsArray()[other];
    if (!map.isProjectedPermutation())
      return std::nullopt;
    auto number =
        map.getResultPosition(getAffineDimExpr(role.depth, op.getContext()));
    if (!number)
      return std::nullopt;
    return Dimension{other, *number};
  }

  /// Has a product read a dimension of an operand in the order of places.
  void putInOrder(linalg::GenericOp op, Dimension dimension, Value order) {
    OpOperand &operand = op->getOpOperand(dimension.operand);
    b.setInsertionPoint(op);
    operand.set(
        inOrder(b, op.getLoc(), operand.get(), dimension.number, order));
  }

  /// The form in which the kernel reads the other operand.
  static QuantizedWeight::Left leftOf(linalg::GenericOp op,
                                      const WeightRole &role) {
    for (OpOperand *other : op.getDpsInputOperands())
      if (other->getOperandNumber() != role.operand &&
          isMadeOfBytes(other->get()))
        return QuantizedWeight::Left::Bytes;
    return role.roundsLeft ? QuantizedWeight::Left::Rounded
                           : QuantizedWeight::Left::Exact;
  }

  /// Multiplies floats of eight bits and floats that come from narrow ones as
  /// bf16, which holds both exactly: processors multiply pairs of them.
  void multiplyNarrow(linalg::GenericOp op, const WeightRole &role) {
    OpOperand &weight = op->getOpOperand(role.operand);
    auto made = weight.get().getDefiningOp<linalg::GenericOp>();
    auto layout = ir::quantizedWeightOf(made);
    OpOperand &other = *op.getDpsInputOperand(1 - role.operand);
    auto source = wideningOf(other.get());
    if (layout->hasScale || !layout->floatType(b.getContext()) || !source ||
        !getElementTypeOrSelf(weight.get().getType()).isF32())
      return;
    b.setInsertionPoint(op);
    readNarrow(op, other, asBF16(*source));
    readNarrow(op, weight, asBF16(made));
  }

  /// The operation that widens elements of bf16, or of floats of eight bits, to
  /// a tensor of f32; none if there is none.
  static std::optional<linalg::GenericOp> wideningOf(Value tensor) {
    auto op = tensor.getDefiningOp<linalg::GenericOp>();
    if (!op || op.getNumDpsInputs() != 1 || op.getNumResults() != 1 ||
        op.getNumReductionLoops() != 0 ||
        !getElementTypeOrSelf(tensor.getType()).isF32())
      return std::nullopt;
    auto wide = op.getBody()
                    ->getTerminator()
                    ->getOperand(0)
                    .getDefiningOp<arith::ExtFOp>();
    if (!wide || wide.getIn() != op.getBody()->getArgument(0))
      return std::nullopt;
    Type narrow = wide.getIn().getType();
    bool isSmall =
        QuantizedWeight::codeOf(narrow) != QuantizedWeight::Code::Integer;
    return narrow.isBF16() || isSmall ? std::optional(op) : std::nullopt;
  }

  /// A copy of an operation, whose result is bf16.
  Value asBF16(linalg::GenericOp op) {
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    Type narrow = b.getBF16Type();
    Value empty = b.create<tensor::EmptyOp>(
        op.getLoc(), tensor::getMixedSizes(b, op.getLoc(), op.getOutputs()[0]),
        narrow);
    auto copy = cast<linalg::GenericOp>(b.clone(*op));
    copy.getDpsInitOperand(0)->set(empty);
    copy.getResult(0).setType(type.clone(narrow));
    Block *body = copy.getBody();
    body->getArguments().back().setType(narrow);
    Operation *end = body->getTerminator();
    OpBuilder inner(end);
    end->setOperand(0, inner.create<arith::TruncFOp>(op.getLoc(), narrow,
                                                     end->getOperand(0)));
    return copy.getResult(0);
  }

  /// Has an operation read a tensor of narrower floats, which it widens.
  static void readNarrow(linalg::GenericOp op, OpOperand &operand,
                         Value narrow) {
    operand.set(narrow);
    BlockArgument element =
        op.getBody()->getArgument(operand.getOperandNumber());
    Type wide = element.getType();
    element.setType(getElementTypeOrSelf(narrow.getType()));
    OpBuilder inner(op.getBody(), op.getBody()->begin());
    auto widened = inner.create<arith::ExtFOp>(op.getLoc(), wide, element);
    element.replaceAllUsesExcept(widened, widened);
  }

  /// The packed form of an operand. Null if there is none; `why` says the
  /// reason.
  Packed find(linalg::GenericOp op, OpOperand &operand, const WeightRole &role,
              std::string &why) {
    isQuantized = false;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = cast<RankedTensorType>(operand.get().getType());
    if (!type.hasStaticShape() || type.getRank() != 2 ||
        !steady.contains(operand.get()))
      return {};
    auto dimOf = [&](unsigned loop) {
      return map.getResultPosition(b.getAffineDimExpr(loop));
    };
    auto column = dimOf(role.column), depth = dimOf(role.depth);
    if (!column || !depth)
      return {};
    // The operand's dimensions as functions of column (d0) and depth (d1).
    AffineMap access =
        AffineMap::get(2, 0,
                       {b.getAffineDimExpr(*column == 0 ? 0 : 1),
                        b.getAffineDimExpr(*column == 0 ? 1 : 0)},
                       b.getContext());
    QuantizedWeight::Left left = leftOf(op, role);
    Packed &known = made[{operand.get(), access, static_cast<int64_t>(left)}];
    if (known.weight)
      return known;
    int64_t columns = type.getDimSize(*column),
            depths = type.getDimSize(*depth);
    auto formula = WeightFormula::find(operand.get(), access, columns, depths,
                                       steady, why);
    if (!formula)
      return {};
    isQuantized = true;
    auto layout = layoutOf(*formula, depths, why);
    if (!layout)
      return {};
    bool isInteger = layout->code == QuantizedWeight::Code::Integer;
    layout->left = isInteger ? left : QuantizedWeight::Left::Exact;
    if (isInteger && layout->bits == 4 && role.pairsColumns)
      layout->nibbles = QuantizedWeight::Nibbles::Columns;
    b.setInsertionPoint(op);
    if (formula->order)
      known.order = formula->order->depths(b, op.getLoc());
    WeightPacker packer(b, op.getLoc(), *formula, *layout, columns, depths,
                        known.order);
    WeightPacker::Parts parts{packer.integers(), packer.table(), Value(),
                              Value()};
    if (layout->hasScale)
      parts.scale = packer.parameters(formula->scale);
    if (formula->offset)
      parts.offset = packer.parameters(formula->offset);
    known.weight = packer.weight(type.getElementType(), parts);
    return known;
  }

  /// Chooses the layout of the weight. A center that is no small integer moves
  /// to the offset, which is f32 then.
  static std::optional<QuantizedWeight>
  layoutOf(WeightFormula &formula, int64_t depths, std::string &why) {
    int64_t count = formula.range.high - formula.range.low + 1;
    if (formula.range.isEmpty() || count > 256) {
      why = "its integers have more than 8 bits";
      return std::nullopt;
    }
    if (formula.group != depths &&
        formula.group % QuantizedWeight::depthMultiple != 0) {
      why = "groups of " + std::to_string(formula.group) +
            " depths are no multiple of 16";
      return std::nullopt;
    }
    QuantizedWeight layout{};
    layout.bits = count > 16 ? 8 : 4;
    layout.group = formula.group;
    layout.code = formula.code();
    layout.hasScale = formula.scale != nullptr;
    if (!formula.scale)
      formula.scale = constantFormula(1); // moves of the center multiply by it
    if (layout.code != QuantizedWeight::Code::Integer) {
      moveCenter(formula, formula.center);
      return layout;
    }
    double center = formula.center - static_cast<double>(formula.range.low);
    // An offset can correct any center. The middle of the range keeps sums
    // small.
    int64_t middle = int64_t(1) << (layout.bits - 1);
    constexpr double mostCenter = 256;
    if (!formula.offset && std::abs(center) <= mostCenter) {
      layout.center = static_cast<int64_t>(center);
      return layout;
    }
    Builder b(formula.integer.tensor.getContext());
    bool isNarrow = formula.offset && !formula.offset->type(b).isF32();
    if (isNarrow && center == 0) {
      layout.center = 0;
      return layout;
    }
    layout.center = middle;
    moveCenter(formula, center - double(middle));
    return layout;
  }

  /// Subtracts a number from the integers by way of the offset.
  static void moveCenter(WeightFormula &formula, double center) {
    if (center == 0)
      return;
    using Kind = FormulaNode::Kind;
    Formula moved = combine(Kind::Mul, formula.scale, constantFormula(-center));
    formula.offset =
        formula.offset ? combine(Kind::Add, formula.offset, moved) : moved;
  }
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createPackQuantizedPass(ChooseWeight choose) {
  return schedule::makePackPass<schedule::QuantizedPacker>(
      "anabranch-pack-quantized",
      "packs steady weights of 4 and 8 bits in initialize", std::move(choose));
}

} // namespace anabranch
