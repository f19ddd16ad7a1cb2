//===- NodeReader.cpp - nodes of a description, as anabranch.aten ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/NodeReader.h"
#include "ir/Anabranch.h"
#include "ir/ResultDims.h"
#include "ir/Scope.h"
#include "ir/WritingCall.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

/// `aten.add.Tensor` is `add.Tensor` in `anabranch.aten`. `aten.mm.default` is
/// `mm`, and `mylib.op.default` is `mylib::op`.
static std::string calleeOf(StringRef name) {
  name.consume_back(".default");
  if (name.consume_front("aten.") || name.consume_front("aten::"))
    return name.str();
  if (name.contains("::"))
    return name.str();
  auto [space, rest] = name.split('.');
  return (space + "::" + rest).str();
}

/// The reference to a tensor or symbolic size that the call takes. Each value
/// becomes an operand once.
Attribute NodeReader::operandFor(Value value) {
  auto *found = llvm::find(operands, value);
  int64_t index = found - operands.begin();
  if (found == operands.end())
    operands.push_back(value);
  return ir::OperandRefAttr::get(&in.context, index);
}

/// An argument of a number: an operand, or a literal.
Attribute NodeReader::numberFor(OpFoldResult number) {
  if (auto value = dyn_cast_if_present<Value>(number))
    return operandFor(value);
  auto constant = cast<Attribute>(number);
  if (isa<FloatAttr>(constant))
    return constant;
  return in.builder.getI64IntegerAttr(cast<IntegerAttr>(constant).getInt());
}

/// Sizes of a view that the operator writes, or its strides.
FailureOr<Attribute> NodeReader::sizesFor(const json::Array &list) {
  SmallVector<Attribute> sizes;
  for (const json::Value &item : list) {
    OpFoldResult size = values.sizes.build(item, in.builder, in.loc);
    if (!size)
      return failure();
    sizes.push_back(numberFor(size));
  }
  return Attribute(in.builder.getArrayAttr(sizes));
}

/// An argument that the operator writes: a memory of the call, or a view of it.
FailureOr<Attribute> NodeReader::writtenArgument(const json::Object &arg) {
  std::optional<int64_t> memory = arg.getInteger("written");
  if (!memory)
    return in.error() << "'written' must be a number";
  NamedAttrList entries;
  entries.set(ir::writtenEntry, in.builder.getI64IntegerAttr(*memory));
  const json::Value *offset = arg.get(ir::viewOffset);
  if (!offset)
    return Attribute(entries.getDictionary(&in.context));
  OpFoldResult begin = values.sizes.build(*offset, in.builder, in.loc);
  const json::Array *sizes = in.list(arg, ir::viewSizes);
  const json::Array *strides = in.list(arg, ir::viewStrides);
  if (!begin || !sizes || !strides)
    return failure();
  if (sizes->size() != strides->size())
    return in.error() << "a view needs a stride for each size";
  FailureOr<Attribute> shape = sizesFor(*sizes), steps = sizesFor(*strides);
  if (failed(shape) || failed(steps))
    return failure();
  entries.set(ir::viewOffset, numberFor(begin));
  entries.set(ir::viewSizes, *shape);
  entries.set(ir::viewStrides, *steps);
  return Attribute(entries.getDictionary(&in.context));
}

/// The values that the memories hold which the operator writes, each an
/// operand.
LogicalResult
NodeReader::readWrites(const json::Object &node,
                       SmallVectorImpl<int64_t> &written,
                       SmallVectorImpl<DenseI64ArrayAttr> &strides) {
  const json::Array *writes = node.getArray("writes");
  if (!writes)
    return success();
  for (const json::Value &old : *writes) {
    if (old.kind() == json::Value::Null) {
      written.push_back(-1);
      strides.emplace_back();
      continue;
    }
    const json::Object *object = old.getAsObject();
    if (!object)
      return in.error() << "'writes' must hold references";
    FailureOr<Value> value = values.reference(*object);
    if (failed(value))
      return failure();
    written.push_back(cast<ir::OperandRefAttr>(operandFor(*value)).getIndex());
    auto type = dyn_cast<RankedTensorType>(value->getType());
    if (!type)
      return in.error() << "'writes' must hold tensors";
    FailureOr<DenseI64ArrayAttr> steps = in.strides(*object, type.getRank());
    if (failed(steps))
      return failure();
    strides.push_back(*steps);
  }
  return success();
}

FailureOr<Attribute> NodeReader::taggedArgument(const json::Object &arg) {
  if (arg.get("ref")) {
    FailureOr<Value> value = values.reference(arg);
    if (failed(value))
      return failure();
    return operandFor(*value);
  }
  if (arg.get("written"))
    return writtenArgument(arg);
  if (const json::Value *expr = arg.get("expr")) {
    OpFoldResult number = values.sizes.buildNumber(*expr, in.builder, in.loc);
    if (!number)
      return failure();
    return numberFor(number);
  }
  if (arg.get("dtype")) {
    FailureOr<DType> found = in.dtype(arg);
    if (failed(found))
      return failure();
    Type type = found->isUnsigned
                    ? IntegerType::get(&in.context, 8, IntegerType::Unsigned)
                    : found->type;
    return Attribute(TypeAttr::get(type));
  }
  if (const json::Value *number = arg.get("float")) {
    if (auto finite = number->getAsNumber())
      return Attribute(in.builder.getF64FloatAttr(*finite));
    double value;
    if (auto name = number->getAsString(); name && !name->getAsDouble(value))
      return Attribute(in.builder.getF64FloatAttr(value));
  }
  for (StringRef key : {"str", "device"})
    if (auto value = arg.getString(key))
      return Attribute(in.builder.getStringAttr(*value));
  for (StringRef key : {"layout", "memory_format"})
    if (auto value = arg.getInteger(key))
      return Attribute(in.builder.getI64IntegerAttr(*value));
  std::string shown = llvm::formatv("{0}", json::Value(json::Object(arg)));
  return in.error() << "no such argument: " << shown;
}

FailureOr<Attribute> NodeReader::argument(const json::Value &arg) {
  switch (arg.kind()) {
  case json::Value::Null:
    return Attribute(in.builder.getUnitAttr());
  case json::Value::Boolean:
    return Attribute(in.builder.getBoolAttr(*arg.getAsBoolean()));
  case json::Value::Number:
    if (auto integer = arg.getAsInteger())
      return Attribute(in.builder.getI64IntegerAttr(*integer));
    return Attribute(in.builder.getF64FloatAttr(*arg.getAsNumber()));
  case json::Value::String:
    return Attribute(in.builder.getStringAttr(*arg.getAsString()));
  case json::Value::Object:
    return taggedArgument(*arg.getAsObject());
  case json::Value::Array:
    break;
  }
  SmallVector<Attribute> elements;
  for (const json::Value &element : *arg.getAsArray()) {
    FailureOr<Attribute> attr = argument(element);
    if (failed(attr))
      return failure();
    elements.push_back(*attr);
  }
  return Attribute(in.builder.getArrayAttr(elements));
}

LogicalResult NodeReader::readArguments(const json::Object &node,
                                        OperationState &state) {
  const json::Object *args = node.getObject("args");
  if (!args)
    return in.error() << "'args' must be an object";
  NamedAttrList attrs;
  // Arguments are read in the order of their names, since a JSON object has
  // none and operands are numbered here.
  SmallVector<StringRef> names;
  for (const auto &entry : *args)
    names.push_back(entry.first);
  llvm::sort(names);
  for (StringRef name : names) {
    if (name.empty())
      return in.error() << "an argument has no name";
    FailureOr<Attribute> attr = argument(*args->get(name));
    if (failed(attr))
      return failure();
    attrs.set(in.builder.getStringAttr(name), *attr);
  }
  state.addAttribute("args", attrs.getDictionary(&in.context));
  return success();
}

LogicalResult
NodeReader::readResults(const json::Object &node, OperationState &state,
                        SmallVectorImpl<Value> &dims,
                        SmallVectorImpl<int64_t> &unsignedResults) {
  const json::Array *array = in.list(node, "results");
  if (!array)
    return failure();
  SmallVector<int64_t> runSized;
  for (const json::Value &result : *array) {
    const json::Object *object = result.getAsObject();
    if (!object)
      return in.error() << "'results' must hold objects";
    FailureOr<RankedTensorType> type = in.tensorType(*object);
    if (failed(type))
      return failure();
    FailureOr<DType> element = in.dtype(*object);
    if (element->isUnsigned)
      unsignedResults.push_back(state.types.size());
    SmallVector<int64_t> shape(type->getShape());
    for (auto [dim, size] : llvm::enumerate(*object->getArray("shape"))) {
      if (!ShapedType::isDynamic(shape[dim]))
        continue;
      OpFoldResult value = values.sizes.build(size, in.builder, in.loc);
      if (!value)
        return failure();
      if (auto symbolic = dyn_cast<Value>(value))
        dims.push_back(symbolic);
      else // an expression that folded
        shape[dim] = cast<IntegerAttr>(cast<Attribute>(value)).getInt();
      if (!ShapedType::isDynamic(shape[dim]) && shape[dim] < 0)
        return in.error() << "a size is negative: " << shape[dim];
    }
    state.addTypes(RankedTensorType::get(shape, type->getElementType()));
    if (object->getBoolean("run_sized").value_or(false))
      runSized.push_back(state.types.size() - 1);
  }
  if (!runSized.empty())
    state.addAttribute(ir::runSizedAttr,
                       in.builder.getDenseI64ArrayAttr(runSized));
  return success();
}

/// Reads the stream and the core limit of a node. Other annotations are the
/// user's own.
LogicalResult NodeReader::readScope(const json::Object &node, Operation *op) {
  const json::Object *annotations = node.getObject("annotations");
  if (!annotations)
    return success();
  StringRef tag = annotations->getString("anabranch.stream").value_or("");
  int64_t priority = annotations->getInteger("anabranch.priority").value_or(0);
  int64_t cores = annotations->getInteger("anabranch.cores").value_or(0);
  if (std::abs(priority) > ir::maxPriority)
    return in.error() << "no such priority of a stream: " << priority;
  if (cores < 0 || cores > ir::maxCores)
    return in.error() << "no such number of cores: " << cores;
  if (annotations->getString("anabranch.stream") || cores > 0)
    ir::setScope(op, ir::ScopeAttr::get(&in.context, tag, priority, cores));
  return success();
}

/// Puts the super kernel of a node into its location.
LogicalResult NodeReader::readSuper(const json::Object &node) {
  const json::Object *annotations = node.getObject("annotations");
  auto name =
      annotations ? annotations->getString("anabranch.super") : std::nullopt;
  if (!name)
    return success();
  int64_t fusion =
      annotations->getInteger("anabranch.super_fusion").value_or(0);
  StringRef strict =
      annotations->getString("anabranch.super_strict").value_or("");
  if (fusion < 0 || fusion > 1)
    return in.error() << "no such fusion of streams: " << fusion;
  if (!strict.empty() && strict != "bypass" && strict != "abort")
    return in.error() << "no such check of a scope: '" << strict << "'";
  in.loc = ir::inSuper(in.loc,
                       ir::SuperAttr::get(&in.context, *name, fusion, strict));
  return success();
}

LogicalResult NodeReader::read(const json::Object &node) {
  FailureOr<StringRef> name = in.enter(node);
  if (failed(name))
    return failure();
  FailureOr<StringRef> op = in.text(node, "op");
  if (failed(op) || failed(readSuper(node)))
    return failure();
  operands.clear();
  OperationState state(in.loc, ir::AtenOp::getOperationName());
  SmallVector<Value> dims;
  SmallVector<int64_t> unsignedResults, unsignedOperands, written;
  SmallVector<DenseI64ArrayAttr> writtenStrides;
  if (failed(readArguments(node, state)) ||
      failed(readWrites(node, written, writtenStrides)) ||
      failed(readResults(node, state, dims, unsignedResults)))
    return failure();
  for (auto [index, operand] : llvm::enumerate(operands))
    if (values.isUnsigned(operand))
      unsignedOperands.push_back(index);
  state.addOperands(operands);
  state.addOperands(dims);
  state.addAttribute("callee", in.builder.getStringAttr(calleeOf(*op)));
  state.addAttribute("unsignedOperands",
                     in.builder.getDenseI64ArrayAttr(unsignedOperands));
  state.addAttribute("unsignedResults",
                     in.builder.getDenseI64ArrayAttr(unsignedResults));
  if (node.getBoolean("ordered").value_or(false))
    state.addAttribute("ordered", in.builder.getUnitAttr());
  state.addAttribute(
      "operandSegmentSizes",
      in.builder.getDenseI32ArrayAttr({static_cast<int32_t>(operands.size()),
                                       static_cast<int32_t>(dims.size())}));
  Operation *call = in.builder.create(state);
  ir::setWritten(call, written, writtenStrides);
  SmallVector<Value> made(call->getResults());
  for (auto [result, item] : llvm::zip(made, *node.getArray("results")))
    values.setDType(result, *item.getAsObject()->getString("dtype"));
  if (!values.add(*name, made))
    return in.error() << "two nodes have this name";
  return readScope(node, call);
}

} // namespace importer
} // namespace anabranch
