//===- Lanes.cpp - a value as the lanes of a vector see it ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Lanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace kernels {

Type laneType(Value value) { return getElementTypeOrSelf(value.getType()); }

Value castBits(LaneBuilder &lanes, Value value, Type element) {
  while (auto cast = value.getDefiningOp<arith::BitcastOp>())
    value = cast.getIn();
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  if (value.getType() == type)
    return value;
  return lanes.make<arith::BitcastOp>(type, value);
}

static std::optional<int64_t> constantOf(Value value) {
  APInt integer;
  if (matchPattern(value, m_ConstantInt(&integer)))
    return integer.getSExtValue();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Scopes and sharing
//===----------------------------------------------------------------------===//

LaneBuilder::LaneBuilder(OpBuilder &builder, Location loc,
                         const native::Isa &isa)
    : builder(builder), loc(loc), isa(isa) {
  push();
}

void LaneBuilder::push() { scopes.push_back(std::make_unique<OpenScope>()); }

void LaneBuilder::pop() {
  auto &ends = scopes.back()->ends;
  for (auto action = ends.rbegin(); action != ends.rend(); ++action)
    (*action)();
  scopes.pop_back();
}

void LaneBuilder::atScopeEnd(std::function<void()> action) {
  scopes.back()->ends.push_back(std::move(action));
}

LaneBuilder::Scope::Scope(LaneBuilder &lanes) : lanes(lanes) { lanes.push(); }
LaneBuilder::Scope::~Scope() { lanes.pop(); }

LaneBuilder::MaskGuard::MaskGuard(LaneBuilder &lanes, int64_t newWidth,
                                  Value newMask, bool newMaybeEmpty)
    : lanes(lanes), width(lanes.width), mask(lanes.mask),
      maybeEmpty(lanes.maybeEmpty), scope(lanes) {
  lanes.width = newWidth;
  lanes.mask = newMask;
  // Callers derive a mask from a size and get none where the size fits: then
  // every lane is active.
  lanes.maybeEmpty = newMaybeEmpty && newMask;
}

LaneBuilder::MaskGuard::~MaskGuard() {
  lanes.width = width;
  lanes.mask = mask;
  lanes.maybeEmpty = maybeEmpty;
}

unsigned LaneBuilder::PureInfo::getHashValue(const Operation *op) {
  return OperationEquivalence::computeHash(
      const_cast<Operation *>(op), OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
}

bool LaneBuilder::PureInfo::isEqual(const Operation *a, const Operation *b) {
  if (a == b)
    return true;
  if (a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() ||
      b == getEmptyKey())
    return false;
  return OperationEquivalence::isEquivalentTo(
      const_cast<Operation *>(a), const_cast<Operation *>(b),
      OperationEquivalence::IgnoreLocations);
}

/// The operation before the insertion point; null at the beginning of a block.
Operation *LaneBuilder::lastMade() const {
  Block *block = builder.getInsertionBlock();
  Block::iterator at = builder.getInsertionPoint();
  return at == block->begin() ? nullptr : &*std::prev(at);
}

Value LaneBuilder::share(Value fresh, bool isNew) {
  Operation *op = fresh.getDefiningOp();
  // `make` folds once. That fold may only have moved a constant to the right,
  // so it folds again.
  if (op && isNew && op->hasTrait<OpTrait::IsCommutative>() &&
      op->use_empty() && matchPattern(op->getOperand(1), m_Constant())) {
    SmallVector<Value, 1> folded;
    if (succeeded(builder.tryFold(op, folded)) && !folded.empty()) {
      op->erase();
      fresh = folded[0];
      op = fresh.getDefiningOp();
    }
  }
  if (!op || op->getNumRegions() != 0 || !isMemoryEffectFree(op))
    return fresh;
  unsigned number = cast<OpResult>(fresh).getResultNumber();
  for (auto &scope : llvm::reverse(scopes)) {
    auto found = scope->made.find(op);
    if (found == scope->made.end())
      continue;
    if (isNew && found->first != op && op->use_empty())
      op->erase();
    return found->first->getResult(number);
  }
  scopes.back()->made.try_emplace(op);
  return fresh;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value LaneBuilder::constant(TypedAttr value) {
  return make<arith::ConstantOp>(value);
}

Value LaneBuilder::index(int64_t value) {
  return constant(builder.getIndexAttr(value));
}

Value LaneBuilder::i64(int64_t value) {
  return constant(builder.getI64IntegerAttr(value));
}

Value LaneBuilder::toI64(Value value) {
  return make<arith::IndexCastOp>(builder.getI64Type(), value);
}

Value LaneBuilder::addIndex(Value a, Value b) {
  return make<arith::AddIOp>(a, b);
}

Value LaneBuilder::subIndex(Value a, Value b) {
  return make<arith::SubIOp>(a, b);
}

Value LaneBuilder::mulIndex(Value a, Value b) {
  return make<arith::MulIOp>(a, b);
}

/// The value as `base * factor + rest`, with both numbers known.
struct Scaled {
  Value base;
  int64_t factor, rest;
};
static std::optional<Scaled> scaledBy(Value value, int64_t divisor) {
  int64_t rest = 0;
  if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    auto number = constantOf(sum.getRhs());
    if (!number || *number < 0)
      return std::nullopt;
    rest = *number;
    value = sum.getLhs();
  }
  auto product = value.getDefiningOp<arith::MulIOp>();
  auto factor = product ? constantOf(product.getRhs()) : std::nullopt;
  if (!factor || *factor <= 0 || *factor % divisor != 0)
    return std::nullopt;
  return Scaled{product.getLhs(), *factor, rest};
}

Value LaneBuilder::divIndex(Value a, Value b) {
  auto divisor = constantOf(b);
  if (divisor == 1)
    return a;
  if (divisor > 0)
    if (auto scaled = scaledBy(a, *divisor))
      return addIndex(mulIndex(scaled->base, index(scaled->factor / *divisor)),
                      index(scaled->rest / *divisor));
  return make<arith::DivUIOp>(a, b);
}

Value LaneBuilder::ceilDivIndex(Value a, Value b) {
  if (constantOf(b) == 1)
    return a;
  return divIndex(addIndex(a, subIndex(b, index(1))), b);
}

Value LaneBuilder::remIndex(Value a, Value b) {
  auto divisor = constantOf(b);
  if (divisor == 1)
    return index(0);
  if (divisor > 0)
    if (auto scaled = scaledBy(a, *divisor))
      return index(scaled->rest % *divisor);
  return make<arith::RemUIOp>(a, b);
}

Value LaneBuilder::minIndex(Value a, Value b) {
  return make<arith::MinSIOp>(a, b);
}

Value LaneBuilder::maxIndex(Value a, Value b) {
  return make<arith::MaxSIOp>(a, b);
}

//===----------------------------------------------------------------------===//
// Index lanes
//===----------------------------------------------------------------------===//

/// The largest power of two that is known to divide the value.
static int64_t knownMultiple(Value value) {
  if (auto number = constantOf(value))
    return *number == 0 ? (int64_t(1) << 40) : (*number & -*number);
  return 1;
}

/// The sum or the difference of two indices. `step` is the step of the result.
template <typename OpT>
static Lanes combine(LaneBuilder &lanes, Lanes a, Lanes b, int64_t step) {
  if (a.isVarying() || b.isVarying())
    return Lanes::varying(lanes.make<OpT>(lanes.vector(a), lanes.vector(b)));
  Value value = lanes.make<OpT>(a.value, b.value);
  if (step == 0)
    return Lanes::uniform(value);
  int64_t left = a.isLinear() ? a.multiple : knownMultiple(a.value);
  int64_t right = b.isLinear() ? b.multiple : knownMultiple(b.value);
  return Lanes::linear(value, step, std::gcd(left, right));
}

Lanes LaneBuilder::add(Lanes a, Lanes b) {
  return combine<arith::AddIOp>(*this, a, b, a.step + b.step);
}

Lanes LaneBuilder::sub(Lanes a, Lanes b) {
  return combine<arith::SubIOp>(*this, a, b, a.step - b.step);
}

Lanes LaneBuilder::mul(Lanes a, Lanes b) {
  if (a.isUniform() && b.isUniform())
    return Lanes::uniform(make<arith::MulIOp>(a.value, b.value));
  if (a.isUniform())
    std::swap(a, b);
  if (a.isLinear() && b.isUniform()) {
    if (auto factor = constantOf(b.value)) {
      if (*factor == 0)
        return b;
      int64_t multiple = std::min<int64_t>(a.multiple, 1 << 20) *
                         std::min<int64_t>(knownMultiple(b.value), 1 << 20);
      return Lanes::linear(make<arith::MulIOp>(a.value, b.value),
                           a.step * *factor, multiple);
    }
  }
  return Lanes::varying(make<arith::MulIOp>(vector(a), vector(b)));
}

/// Quotient and remainder of lane 0 of a linear index. If lane 0 may be
/// inactive, its index may be negative; the active lanes then count on from the
/// floor of its quotient.
std::pair<Value, Value> LaneBuilder::divRemFirst(Value first, Value size) {
  if (!maybeEmpty)
    return {divIndex(first, size), remIndex(first, size)};
  Value quotient = make<arith::DivSIOp>(first, size);
  Value remainder = subIndex(first, mulIndex(quotient, size));
  Value isNegative = make<arith::CmpIOp>(arith::CmpIPredicate::slt, remainder,
                                         Value(index(0)));
  quotient =
      make<arith::SelectOp>(isNegative, subIndex(quotient, index(1)), quotient);
  remainder =
      make<arith::SelectOp>(isNegative, addIndex(remainder, size), remainder);
  return {quotient, remainder};
}

Lanes LaneBuilder::divRemFallback(Lanes a, Value size, bool quotient) {
  // Indices are below 2^53, so a division in f64 with truncation is exact. No
  // processor divides vectors of 64-bit integers.
  Type i64Vector = vectorType(builder.getI64Type());
  Type f64Vector = vectorType(builder.getF64Type());
  auto toFloat = [&](Value value) -> Value {
    Value integer = make<arith::IndexCastOp>(i64Vector, value);
    return make<arith::SIToFPOp>(f64Vector, integer);
  };
  Value dividend = vector(a);
  Value divisor = vector(Lanes::uniform(size));
  Value ratio = make<arith::DivFOp>(toFloat(dividend), toFloat(divisor));
  Value integer = make<arith::FPToSIOp>(i64Vector, ratio);
  Value result =
      make<arith::IndexCastOp>(vectorType(builder.getIndexType()), integer);
  if (quotient)
    return Lanes::varying(result);
  Value product = make<arith::MulIOp>(result, divisor);
  return Lanes::varying(make<arith::SubIOp>(dividend, product));
}

std::pair<Lanes, Lanes> LaneBuilder::divRem(Lanes a, Value size) {
  auto known = constantOf(size);
  // A row without elements is never read. But its code exists, and runs around
  // a masked read.
  if (known && *known <= 1)
    return {a, indexLanes(0)};
  if (!known)
    size = maxIndex(size, index(1));
  if (a.isUniform())
    return {Lanes::uniform(divIndex(a.value, size)),
            Lanes::uniform(remIndex(a.value, size))};
  if (a.isVarying())
    return {divRemFallback(a, size, true), divRemFallback(a, size, false)};

  auto [quotient, remainder] = divRemFirst(a.value, size);
  if (known && a.step % *known == 0)
    return {Lanes::linear(quotient, a.step / *known),
            Lanes::uniform(remainder)};
  int64_t extent = a.step * width;
  if (known && *known == a.uniformQuotient)
    return {Lanes::uniform(quotient), Lanes::linear(remainder, a.step)};
  if (known && a.step > 0 && *known % extent == 0 && a.multiple % extent == 0)
    return {Lanes::uniform(quotient),
            Lanes::linear(remainder, a.step, std::gcd(a.multiple, *known))};

  // The vector crosses into the next row, so lanes count from the start of
  // their row.
  Lanes offset = Lanes::linear(remainder, a.step);
  if (known && a.step == 1 && *known >= width) {
    Value lane = vector(offset);
    Value row = vector(Lanes::uniform(size));
    Value crossed = make<arith::CmpIOp>(arith::CmpIPredicate::uge, lane, row);
    Value wrapped = make<arith::SubIOp>(lane, row);
    Value first = vector(Lanes::uniform(quotient));
    Value next = make<arith::AddIOp>(first, vector(indexLanes(1)));
    return {Lanes::varying(make<arith::SelectOp>(crossed, next, first)),
            Lanes::varying(make<arith::SelectOp>(crossed, wrapped, lane))};
  }
  if (a.step < 0)
    offset = a;
  Lanes rows = divRemFallback(offset, size, true);
  if (a.step > 0)
    rows = add(rows, Lanes::uniform(quotient));
  return {rows, divRemFallback(offset, size, false)};
}

//===----------------------------------------------------------------------===//
// Any lanes
//===----------------------------------------------------------------------===//

Type LaneBuilder::vectorType(Type element) const {
  return width == 1 ? element : VectorType::get({width}, element);
}

Value LaneBuilder::iota(Type element) {
  auto type = VectorType::get({width}, element);
  SmallVector<Attribute> values;
  for (int64_t lane = 0; lane < width; ++lane)
    values.push_back(builder.getIntegerAttr(element, lane));
  return constant(DenseElementsAttr::get(type, values));
}

Value LaneBuilder::vector(Lanes lanes) {
  if (width == 1 || lanes.isVarying())
    return lanes.value;
  Type element = lanes.value.getType();
  auto type = VectorType::get({width}, element);
  TypedAttr attr;
  Value splat = matchPattern(lanes.value, m_Constant(&attr))
                    ? constant(DenseElementsAttr::get(type, attr))
                    : make<vector::BroadcastOp>(type, lanes.value);
  if (lanes.isUniform())
    return splat;
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < width; ++lane)
    steps.push_back(builder.getIntegerAttr(element, lane * lanes.step));
  return make<arith::AddIOp>(splat,
                             constant(DenseElementsAttr::get(type, steps)));
}

Lanes LaneBuilder::wrap(Value value) const {
  return mlir::isa<VectorType>(value.getType()) ? Lanes::varying(value)
                                                : Lanes::uniform(value);
}

Value LaneBuilder::prefixMask(Value count) {
  // 32 bits hold every lane number, and their compare is cheaper.
  Type i32 = builder.getI32Type();
  Value bounded = minIndex(count, index(width));
  Value limit = make<arith::IndexCastOp>(i32, bounded);
  return make<arith::CmpIOp>(arith::CmpIPredicate::slt, iota(i32),
                             vector(Lanes::uniform(limit)));
}

Value LaneBuilder::andMask(Lanes condition) {
  Value extra = vector(condition);
  return mask ? make<arith::AndIOp>(mask, extra) : extra;
}

Value LaneBuilder::extremum(bool largest, Value a, Value b) {
  return largest ? make<arith::MaximumFOp>(a, b)
                 : make<arith::MinimumFOp>(a, b);
}

Lanes LaneBuilder::select(Lanes condition, Lanes a, Lanes b) {
  if (a == b)
    return a;
  if (condition.isUniform() && a.isUniform() && b.isUniform())
    return Lanes::uniform(
        make<arith::SelectOp>(condition.value, a.value, b.value));
  Value bits = condition.isUniform() ? condition.value : vector(condition);
  Value left = vector(a), right = vector(b);
  Type element = laneType(left);
  if (!element.isBF16())
    return Lanes::varying(make<arith::SelectOp>(bits, left, right));
  // A processor without the type would call a function for each operation.
  left = castBits(*this, left, builder.getI16Type());
  right = castBits(*this, right, builder.getI16Type());
  Value chosen = make<arith::SelectOp>(bits, left, right);
  return Lanes::varying(castBits(*this, chosen, element));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> LaneBuilder::loop(Value low, Value high, int64_t step,
                                     ValueRange initial, LoopBody body) {
  auto first = constantOf(low), last = constantOf(high);
  if (first && last && *first >= *last)
    return llvm::to_vector(initial);
  if (first && last && *first + step >= *last) {
    Scope scope(*this);
    return body(low, initial);
  }
  auto op = builder.create<scf::ForOp>(loc, low, high, index(step), initial);
  // The builder gives a loop without carried values its terminator.
  Block *block = op.getBody();
  if (!block->empty())
    block->back().erase();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(block);
  Scope scope(*this);
  SmallVector<Value> next = body(op.getInductionVar(), op.getRegionIterArgs());
  builder.create<scf::YieldOp>(loc, next);
  return llvm::to_vector(llvm::map_range(
      op.getResults(), [](OpResult result) -> Value { return result; }));
}

void LaneBuilder::loop(Value low, Value high, int64_t step,
                       llvm::function_ref<void(Value)> body) {
  loop(low, high, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> LaneBuilder::ifElse(Value condition, TypeRange types,
                                       Side yes, Side no) {
  if (auto known = constantOf(condition)) {
    Scope scope(*this);
    if (*known)
      return yes();
    return no ? no() : SmallVector<Value>();
  }
  bool hasElse = no || !types.empty();
  auto op = builder.create<scf::IfOp>(loc, types, condition,
                                      /*addThenBlock=*/true,
                                      /*addElseBlock=*/hasElse);
  auto fill = [&](Block *block, Side side) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(block);
    Scope scope(*this);
    SmallVector<Value> values = side();
    builder.create<scf::YieldOp>(loc, values);
  };
  fill(op.thenBlock(), yes);
  if (hasElse)
    fill(op.elseBlock(), no);
  return llvm::to_vector(llvm::map_range(
      op.getResults(), [](OpResult result) -> Value { return result; }));
}

void LaneBuilder::ifThen(Value condition, llvm::function_ref<void()> body) {
  if (auto known = constantOf(condition)) {
    if (*known) {
      Scope scope(*this);
      body();
    }
    return;
  }
  ifElse(
      condition, TypeRange(),
      [&] {
        body();
        return SmallVector<Value>();
      },
      nullptr);
}

} // namespace kernels
} // namespace anabranch
