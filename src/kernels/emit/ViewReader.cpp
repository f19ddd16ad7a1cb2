//===- ViewReader.cpp - elements of views by index arithmetic -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/ViewReader.h"

#include "analysis/ReshapeIndex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

ViewReader::ViewReader(ElementSource &elements)
    : elements(elements), function(elements.function), lanes(elements.lanes) {}

std::optional<Lanes> ViewReader::read(OpResult result, ArrayRef<Lanes> index) {
  Operation *op = result.getOwner();
  if (auto view = dyn_cast<tensor::ExtractSliceOp>(op))
    return slice(view, index);
  if (auto view = dyn_cast<tensor::ExpandShapeOp>(op))
    return expand(view, index);
  if (auto view = dyn_cast<tensor::CollapseShapeOp>(op))
    return collapse(view, index);
  if (auto view = dyn_cast<tensor::InsertSliceOp>(op))
    return insert(view, index);
  if (auto view = dyn_cast<tensor::CastOp>(op))
    return elements.evaluate(view.getSource(), index);
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return elements.scalar(fill.getInputs()[0]);
  // The elements of tensor.empty are undefined, so zero will do.
  if (isa<tensor::EmptyOp>(op))
    return elements.zero(getElementTypeOrSelf(result.getType()));
  DenseElementsAttr values;
  if (matchPattern(op, m_Constant(&values)))
    return constant(op, values, index);
  return std::nullopt;
}

Lanes ViewReader::slice(tensor::ExtractSliceOp op, ArrayRef<Lanes> index) {
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
  SmallVector<OpFoldResult> strides = op.getMixedStrides();
  SmallVector<Lanes> source;
  unsigned kept = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    Lanes position = Lanes::uniform(function.size(offsets[i]));
    if (!dropped.test(i)) {
      Lanes scaled =
          lanes.mul(index[kept++], Lanes::uniform(function.size(strides[i])));
      position = lanes.add(position, scaled);
    }
    source.push_back(position);
  }
  return elements.evaluate(op.getSource(), source);
}

Lanes ViewReader::expand(tensor::ExpandShapeOp op, ArrayRef<Lanes> index) {
  SmallVector<Lanes> source;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    auto step = [&](Lanes position, int64_t part) {
      Lanes size = Lanes::uniform(function.dim(op.getResult(), part));
      return lanes.add(lanes.mul(position, size), index[part]);
    };
    source.push_back(analysis::joinIndex(group, lanes.indexLanes(0), step));
  }
  return elements.evaluate(op.getSrc(), source);
}

Lanes ViewReader::collapse(tensor::CollapseShapeOp op, ArrayRef<Lanes> index) {
  int64_t rank = op.getSrcType().getRank();
  SmallVector<Lanes> source(rank, lanes.indexLanes(0));
  auto divide = [&](Lanes position, int64_t part) {
    return lanes.divRem(position, function.dim(op.getSrc(), part));
  };
  for (auto [position, group] : llvm::zip(index, op.getReassociationIndices()))
    analysis::splitIndex<Lanes>(group, op.getSrcType().getShape(), position,
                                source, divide);
  return elements.evaluate(op.getSrc(), source);
}

namespace {
/// The position of an index in an insert_slice.
struct Inside {
  SmallVector<Lanes> source;     ///< index into the inserted tensor
  SmallVector<Lanes> conditions; ///< all hold if the index is inside
};
} // namespace

/// True if the inserted region spans the whole dimension.
static bool spans(tensor::InsertSliceOp op, size_t i) {
  auto isConstant = [](OpFoldResult value, int64_t expected) {
    return getConstantIntValue(value) == expected;
  };
  if (!isConstant(op.getMixedOffsets()[i], 0) ||
      !isConstant(op.getMixedStrides()[i], 1))
    return false;
  auto size = getConstantIntValue(op.getMixedSizes()[i]);
  return size && *size == op.getDestType().getDimSize(i);
}

static Inside locate(ElementSource &elements, tensor::InsertSliceOp op,
                     ArrayRef<Lanes> index) {
  LaneBuilder &lanes = elements.lanes;
  KernelFunction &function = elements.function;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  Inside inside;
  auto require = [&](arith::CmpIPredicate predicate, Lanes a, Value bound) {
    Lanes b = Lanes::uniform(bound);
    Value condition =
        a.isUniform() ? lanes.make<arith::CmpIOp>(predicate, a.value, bound)
                      : lanes.make<arith::CmpIOp>(predicate, lanes.vector(a),
                                                  lanes.vector(b));
    inside.conditions.push_back(lanes.wrap(condition));
  };
  for (size_t i = 0; i < index.size(); ++i) {
    Lanes position = index[i];
    if (!spans(op, i)) {
      Value offset = function.size(op.getMixedOffsets()[i]);
      Value size = function.size(op.getMixedSizes()[i]);
      Value stride = function.size(op.getMixedStrides()[i]);
      Value zero = lanes.index(0);
      position = lanes.sub(position, Lanes::uniform(offset));
      require(arith::CmpIPredicate::sge, position, zero);
      require(arith::CmpIPredicate::slt, position,
              lanes.mulIndex(size, stride));
      if (getConstantIntValue(op.getMixedStrides()[i]) != 1) {
        // Division is unsigned, but an index before the region is negative
        // here.
        Lanes nonnegative =
            lanes.add(position, Lanes::uniform(lanes.mulIndex(offset, stride)));
        auto [quotient, rest] = lanes.divRem(nonnegative, stride);
        require(arith::CmpIPredicate::eq, rest, zero);
        position = lanes.sub(quotient, Lanes::uniform(offset));
      }
    }
    if (!dropped.test(i))
      inside.source.push_back(position);
  }
  return inside;
}

Lanes ViewReader::insert(tensor::InsertSliceOp op, ArrayRef<Lanes> index) {
  Inside inside = locate(elements, op, index);
  Value yes = lanes.constant(lanes.builder.getBoolAttr(true));
  Lanes uniform = Lanes::uniform(yes), varying = Lanes::uniform(yes);
  for (Lanes condition : inside.conditions) {
    Lanes &all = condition.isUniform() ? uniform : varying;
    all = all.isUniform() && condition.isUniform()
              ? Lanes::uniform(
                    lanes.make<arith::AndIOp>(all.value, condition.value))
              : Lanes::varying(lanes.make<arith::AndIOp>(
                    lanes.vector(all), lanes.vector(condition)));
  }
  auto outside = [&] { return elements.evaluate(op.getDest(), index); };
  auto mixed = [&]() -> Lanes {
    if (varying.isUniform())
      return elements.evaluate(op.getSource(), inside.source);
    Lanes source, rest;
    {
      LaneBuilder::MaskGuard guard(lanes, lanes.width, lanes.andMask(varying),
                                   true);
      source = elements.evaluate(op.getSource(), inside.source);
    }
    Value allTrue = lanes.vector(Lanes::uniform(yes));
    Value negated = lanes.make<arith::XOrIOp>(varying.value, allTrue);
    {
      LaneBuilder::MaskGuard guard(
          lanes, lanes.width, lanes.andMask(Lanes::varying(negated)), true);
      rest = outside();
    }
    return lanes.select(varying, source, rest);
  };
  if (uniform.value == yes)
    return mixed();
  Type type = lanes.vectorType(op.getDestType().getElementType());
  // bf16 passes between blocks as integers: a processor without the type would
  // convert it to f32 and back by calls.
  bool asBits = getElementTypeOrSelf(type).isBF16();
  Type passed = asBits ? lanes.vectorType(lanes.builder.getI16Type()) : type;
  auto side = [&](llvm::function_ref<Lanes()> compute) {
    Value value = lanes.vector(compute());
    if (asBits)
      value = castBits(lanes, value, lanes.builder.getI16Type());
    return SmallVector<Value>{value};
  };
  Value merged = lanes.ifElse(
      uniform.value, passed, [&] { return side(mixed); },
      [&] { return side(outside); })[0];
  if (asBits)
    merged = lanes.make<arith::BitcastOp>(type, merged);
  return lanes.wrap(merged);
}

/// Stores a dense constant as read-only data of the object file.
static Value constantData(ElementSource &elements, Operation *op,
                          DenseElementsAttr values) {
  LaneBuilder &lanes = elements.lanes;
  OpBuilder &b = lanes.builder;
  auto module = elements.function.source->getParentOfType<ModuleOp>();
  Type element = values.getElementType();
  Type stored = memoryType(element);
  if (isa<FloatType>(element)) {
    values = values.bitcast(stored);
  } else if (stored != element) {
    SmallVector<Attribute> attrs;
    for (const APInt &value : values.getValues<APInt>())
      attrs.push_back(b.getIntegerAttr(stored, value.getZExtValue()));
    values = DenseElementsAttr::get(values.getType().clone(stored), attrs);
  }
  std::string base = (elements.function.source.getName() + "_constant").str();
  std::string name = base;
  for (unsigned i = 0; module.lookupSymbol(name); ++i)
    name = base + std::to_string(i);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    b.create<LLVM::GlobalOp>(
        op->getLoc(), LLVM::LLVMArrayType::get(stored, values.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal, name,
        values.reshape(RankedTensorType::get({values.size()}, stored)));
  }
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  return b.create<LLVM::AddressOfOp>(lanes.loc, pointer, name);
}

Lanes ViewReader::constant(Operation *op, DenseElementsAttr values,
                           ArrayRef<Lanes> index) {
  if (values.isSplat())
    return Lanes::uniform(
        lanes.constant(cast<TypedAttr>(values.getSplatValue<Attribute>())));
  return elements.remember(op->getResult(0), index, [&] {
    SmallVector<Value> shape;
    for (int64_t size : values.getType().getShape())
      shape.push_back(lanes.index(size));
    Buffer buffer{constantData(elements, op, values), values.getElementType(),
                  function.rowMajor(shape)};
    return SmallVector<Lanes>{load(lanes, buffer, index)};
  })[0];
}

} // namespace kernels
} // namespace anabranch
