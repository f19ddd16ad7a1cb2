//===- AtenOps.cpp - operators between capture and linalg -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Anabranch.h"
#include "ir/ResultDims.h"
#include "ir/WritingCall.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch::ir;

//===----------------------------------------------------------------------===//
// AtenOp
//===----------------------------------------------------------------------===//

Attribute AtenOp::getArg(StringRef name) { return getArgs().get(name); }

/// The operand that an argument refers to, or null for a literal.
static Value operandOf(AtenOp op, Attribute arg) {
  if (auto ref = dyn_cast_or_null<OperandRefAttr>(arg))
    return op.getInputs()[ref.getIndex()];
  return Value();
}

Value AtenOp::getOperandArg(StringRef name) {
  return operandOf(*this, getArg(name));
}

std::optional<int64_t> AtenOp::getIntArg(StringRef name) {
  if (auto attr = dyn_cast_or_null<BoolAttr>(getArg(name)))
    return attr.getValue() ? 1 : 0;
  if (auto attr = dyn_cast_or_null<IntegerAttr>(getArg(name)))
    return attr.getInt();
  return std::nullopt;
}

std::optional<double> AtenOp::getFloatArg(StringRef name) {
  if (auto attr = dyn_cast_or_null<FloatAttr>(getArg(name)))
    return attr.getValueAsDouble();
  if (auto value = getIntArg(name))
    return static_cast<double>(*value);
  return std::nullopt;
}

/// The value of an attribute, if it is one of this kind.
template <typename AttrT, typename T>
static std::optional<T> valueOf(Attribute attr) {
  if (auto found = dyn_cast_or_null<AttrT>(attr))
    return found.getValue();
  return std::nullopt;
}

std::optional<bool> AtenOp::getBoolArg(StringRef name) {
  return valueOf<BoolAttr, bool>(getArg(name));
}

std::optional<StringRef> AtenOp::getStringArg(StringRef name) {
  return valueOf<StringAttr, StringRef>(getArg(name));
}

std::optional<SmallVector<int64_t>> AtenOp::getIntListArg(StringRef name) {
  Attribute arg = getArg(name);
  if (auto single = dyn_cast_or_null<IntegerAttr>(arg))
    return SmallVector<int64_t>{single.getInt()};
  auto list = dyn_cast_or_null<ArrayAttr>(arg);
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> values;
  for (Attribute element : list) {
    auto integer = dyn_cast<IntegerAttr>(element);
    if (!integer)
      return std::nullopt;
    values.push_back(integer.getInt());
  }
  return values;
}

SmallVector<Value> AtenOp::getOperandListArg(StringRef name) {
  SmallVector<Value> values;
  if (auto list = dyn_cast_or_null<ArrayAttr>(getArg(name)))
    for (Attribute element : list)
      values.push_back(operandOf(*this, element));
  return values;
}

SmallVector<OpFoldResult> AtenOp::getSizeListArg(StringRef name) {
  SmallVector<OpFoldResult> sizes;
  auto list = dyn_cast_or_null<ArrayAttr>(getArg(name));
  if (!list)
    return sizes;
  for (Attribute element : list) {
    if (Value operand = operandOf(*this, element))
      sizes.push_back(operand);
    else
      sizes.push_back(Builder(getContext())
                          .getIndexAttr(cast<IntegerAttr>(element).getInt()));
  }
  return sizes;
}

bool AtenOp::isNoneArg(StringRef name) {
  return isa_and_nonnull<UnitAttr>(getArg(name));
}

bool AtenOp::isUnsigned(Value operand) {
  return llvm::any_of(getUnsignedOperands(), [&](int64_t index) {
    return getInputs()[index] == operand;
  });
}

bool AtenOp::isUnsignedResult(unsigned result) {
  return llvm::is_contained(getUnsignedResults(), result);
}

SmallVector<OpFoldResult> AtenOp::getResultSizes(unsigned i) {
  Builder builder(getContext());
  SmallVector<OpFoldResult> sizes;
  auto dims = getResultDims().begin();
  for (auto [index, type] : llvm::enumerate(getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    for (int64_t size : tensor.getShape()) {
      bool dynamic = ShapedType::isDynamic(size);
      if (index == i)
        sizes.push_back(dynamic ? OpFoldResult(*dims)
                                : builder.getIndexAttr(size));
      if (dynamic)
        ++dims;
    }
  }
  return sizes;
}

void AtenOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (getOrdered()) {
    effects.emplace_back(MemoryEffects::Read::get());
    effects.emplace_back(MemoryEffects::Write::get());
  }
}

/// Fails unless every operand reference, at any depth, names an operand.
static LogicalResult verifyReferences(AtenOp op, Attribute arg) {
  if (auto list = dyn_cast<ArrayAttr>(arg)) {
    for (Attribute element : list)
      if (failed(verifyReferences(op, element)))
        return failure();
    return success();
  }
  if (auto written = dyn_cast<DictionaryAttr>(arg)) {
    auto number = written.getAs<IntegerAttr>(writtenEntry);
    if (!number || number.getInt() < 0 ||
        number.getInt() >= static_cast<int64_t>(writtenOperands(op).size()))
      return op.emitOpError("writes a memory that it does not name");
    for (NamedAttribute entry : written)
      if (failed(verifyReferences(op, entry.getValue())))
        return failure();
    return success();
  }
  auto ref = dyn_cast<OperandRefAttr>(arg);
  if (ref && (ref.getIndex() < 0 ||
              ref.getIndex() >= static_cast<int64_t>(op.getInputs().size())))
    return op.emitOpError("refers to operand ")
           << ref.getIndex() << " but has " << op.getInputs().size();
  return success();
}

/// Fails unless each new value has the type of the old one.
static LogicalResult verifyWritten(AtenOp op) {
  ArrayRef<int64_t> written = writtenOperands(op);
  if (written.size() > op.getNumResults())
    return op.emitOpError("writes ") << written.size() << " memories but has "
                                     << op.getNumResults() << " results";
  if (!written.empty() && !op.getOrdered())
    return op.emitOpError("writes memory and must be ordered");
  for (auto [operand, value] : llvm::zip(written, newValues(op))) {
    if (operand >= static_cast<int64_t>(op.getInputs().size()))
      return op.emitOpError("writes operand ")
             << operand << " but has " << op.getInputs().size();
    if (operand >= 0 && op.getInputs()[operand].getType() != value.getType())
      return op.emitOpError("changes the type of operand ") << operand;
  }
  return success();
}

LogicalResult AtenOp::verify() {
  if (failed(verifyWritten(*this)))
    return failure();
  for (NamedAttribute arg : getArgs())
    if (failed(verifyReferences(*this, arg.getValue())))
      return failure();
  return verifyResultDims(*this);
}

//===----------------------------------------------------------------------===//
// ScatterOp
//===----------------------------------------------------------------------===//

LogicalResult ByteDotOp::verify() {
  constexpr size_t bytesOfWord = 4;
  if (getBytes().empty() || getBytes().size() > bytesOfWord)
    return emitOpError("has ") << getBytes().size() << " bytes";
  return success();
}

LogicalResult ExpectOp::verify() {
  auto dim = getSize().getDefiningOp<tensor::DimOp>();
  Value source = dim ? Value(dim.getSource()) : Value(getSize());
  bool isComputed = (*this)->hasAttr(checkMessageAttr);
  if (!isComputed &&
      (!isa<BlockArgument>(source) || (dim && !dim.getConstantIndex())))
    return emitOpError("takes a size of an argument");
  if (!getSame() == !getMin())
    return emitOpError("must name either another size or limits");
  return success();
}

LogicalResult ReinterpretOp::verify() {
  auto numbers = cast<RankedTensorType>(getSource().getType());
  auto pairs = cast<RankedTensorType>(getResult().getType());
  if (!isa<ComplexType>(numbers.getElementType()))
    std::swap(numbers, pairs);
  auto complex = dyn_cast<ComplexType>(numbers.getElementType());
  if (!complex || complex.getElementType() != pairs.getElementType() ||
      pairs.getRank() != numbers.getRank() + 1 ||
      pairs.getShape().drop_back() != numbers.getShape() ||
      pairs.getShape().back() != 2)
    return emitOpError("takes complex numbers to their parts, or back");
  return success();
}

LogicalResult FftOp::verify() {
  auto real = cast<RankedTensorType>(getReal().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (getToReal() && !getImaginary())
    return emitOpError("makes a real tensor of a real one");
  if (result.getRank() != real.getRank() + (getToReal() ? 0 : 1))
    return emitOpError("must return a tensor of both parts, or a real one");
  if (int64_t(getDimension()) >= real.getRank())
    return emitOpError("has no dimension ") << getDimension();
  Type element = real.getElementType();
  if (!element.isF32() && !element.isF64())
    return emitOpError("transforms f32 and f64 only");
  if (getImaginary() && getImaginary().getType() != real)
    return emitOpError("has parts of different types");
  return success();
}

LogicalResult ScatterOp::verify() {
  if (getInit().getType() != getResult().getType())
    return emitOpError("must return the type of its init");
  int64_t points = cast<RankedTensorType>(getUpdates().getType()).getRank();
  if (getBody().front().getNumArguments() != points + 2)
    return emitOpError("region must take ")
           << points << " indices and two elements";
  int64_t rank = cast<RankedTensorType>(getInit().getType()).getRank();
  if (getBody().front().getTerminator()->getNumOperands() != rank + 1)
    return emitOpError("region must yield ")
           << rank << " indices and one element";
  return success();
}
