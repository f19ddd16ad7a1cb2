//===- GraphReader.cpp - graph description to level "aten" ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/GraphReader.h"
#include "import/DType.h"
#include "import/GraphExpr.h"
#include "ir/Anabranch.h"
#include "ir/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {
namespace {

class Reader {
public:
  explicit Reader(MLIRContext &context)
      : context(context), builder(&context), loc(UnknownLoc::get(&context)) {}

  OwningOpRef<ModuleOp> read(const json::Object &graph);

private:
  //===--- pieces of the description; each emits its own diagnostic
  //--------===//
  InFlightDiagnostic error() { return emitError(loc); }
  const json::Array *list(const json::Object &object, StringRef key,
                          bool required = true);
  LogicalResult objects(const json::Object &object, StringRef key,
                        llvm::function_ref<LogicalResult(const json::Object &)>,
                        bool required = true);
  FailureOr<StringRef> text(const json::Object &object, StringRef key);
  FailureOr<DType> dtype(const json::Object &object);
  FailureOr<RankedTensorType> tensorType(const json::Object &object);
  FailureOr<DenseI64ArrayAttr> strides(const json::Object &object,
                                       int64_t rank);
  FailureOr<Value> reference(const json::Object &object);

  //===--- the parts of the graph
  //------------------------------------------===//
  LogicalResult readSymbols(const json::Object &graph);
  LogicalResult readInput(const json::Object &input);
  LogicalResult defineSymbols(const json::Array &inputs);
  LogicalResult expectSizes(const json::Object &graph,
                            const json::Array &inputs);
  LogicalResult expectSize(Value size, const json::Value &expr);
  bool isDefined(const json::Value &expr) const;
  LogicalResult readNode(const json::Object &node);
  LogicalResult readArguments(const json::Object &node, OperationState &state);
  LogicalResult readResults(const json::Object &node, OperationState &state,
                            SmallVectorImpl<Value> &dims,
                            SmallVectorImpl<int64_t> &unsignedResults);
  LogicalResult readScope(const json::Object &node, Operation *op);
  FailureOr<Attribute> argument(const json::Value &arg);
  FailureOr<Attribute> taggedArgument(const json::Object &arg);
  Attribute operandFor(Value value);
  LogicalResult readOutput(const json::Object &output);
  LogicalResult readMutation(const json::Object &mutation);
  void setLocation(const json::Object &node, StringRef name);
  void addResult(Value value, SmallVector<NamedAttribute> attrs);

  MLIRContext &context;
  OpBuilder builder;
  Location loc;
  GraphExpr sizes;

  SmallVector<Type> argumentTypes;
  SmallVector<DictionaryAttr> argumentAttrs;
  SmallVector<std::string> argumentNames;
  llvm::StringMap<SmallVector<Value>> values; // by node or input
  llvm::DenseMap<Value, std::string> dtypes;  // as the description names them
  llvm::DenseSet<Value> unsignedValues;
  SmallVector<Value> operands; // of the node being read
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
};

} // namespace

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

const json::Array *Reader::list(const json::Object &object, StringRef key,
                                bool required) {
  static const json::Array empty;
  const json::Value *value = object.get(key);
  if (!value && !required)
    return &empty;
  const json::Array *array = value ? value->getAsArray() : nullptr;
  if (!array)
    error() << "'" << key << "' must be a list";
  return array;
}

LogicalResult
Reader::objects(const json::Object &object, StringRef key,
                llvm::function_ref<LogicalResult(const json::Object &)> read,
                bool required) {
  const json::Array *array = list(object, key, required);
  if (!array)
    return failure();
  for (const json::Value &element : *array) {
    loc = UnknownLoc::get(&context);
    const json::Object *item = element.getAsObject();
    if (!item)
      return error() << "'" << key << "' must hold objects";
    if (failed(read(*item)))
      return failure();
  }
  loc = UnknownLoc::get(&context);
  return success();
}

FailureOr<StringRef> Reader::text(const json::Object &object, StringRef key) {
  if (std::optional<StringRef> value = object.getString(key))
    return *value;
  return error() << "'" << key << "' must be a string";
}

FailureOr<DType> Reader::dtype(const json::Object &object) {
  FailureOr<StringRef> name = text(object, "dtype");
  if (failed(name))
    return failure();
  if (std::optional<DType> found = parseDType(*name, &context))
    return *found;
  return error() << "no such dtype: '" << *name << "'";
}

/// Symbolic sizes are dynamic dimensions.
FailureOr<RankedTensorType> Reader::tensorType(const json::Object &object) {
  FailureOr<DType> element = dtype(object);
  const json::Array *shape = list(object, "shape");
  if (failed(element) || !shape)
    return failure();
  if (shape->size() > 64)
    return error() << "a tensor has at most 64 dimensions";
  SmallVector<int64_t> dims;
  int64_t elements = 1;
  for (const json::Value &size : *shape) {
    std::optional<int64_t> integer = size.getAsInteger();
    if (integer && *integer < 0)
      return error() << "a size is negative: " << *integer;
    // Byte counts must stay far from overflow.
    if (integer && *integer > 0 && (elements > (int64_t(1) << 56) / *integer))
      return error() << "a tensor is too large";
    if (integer && *integer > 0)
      elements *= *integer;
    dims.push_back(integer.value_or(ShapedType::kDynamic));
  }
  return RankedTensorType::get(dims, element->type);
}

/// Null when the strides are those of a row-major tensor.
FailureOr<DenseI64ArrayAttr> Reader::strides(const json::Object &object,
                                             int64_t rank) {
  if (!object.get("strides"))
    return DenseI64ArrayAttr();
  const json::Array *array = list(object, "strides");
  if (!array)
    return failure();
  if (static_cast<int64_t>(array->size()) != rank)
    return error() << "there must be one stride per dimension";
  SmallVector<int64_t> values;
  for (const json::Value &stride : *array)
    values.push_back(stride.getAsInteger().value_or(ShapedType::kDynamic));
  return builder.getDenseI64ArrayAttr(values);
}

/// `{"ref": node}` or `{"ref": node, "result": i}`.
FailureOr<Value> Reader::reference(const json::Object &object) {
  FailureOr<StringRef> name = text(object, "ref");
  if (failed(name))
    return failure();
  auto found = values.find(*name);
  if (found == values.end())
    return error() << "no node before this one is named '" << *name << "'";
  int64_t result = object.getInteger("result").value_or(0);
  if (result < 0 || result >= static_cast<int64_t>(found->second.size()))
    return error() << "'" << *name << "' has no result " << result;
  return found->second[result];
}

void Reader::setLocation(const json::Object &node, StringRef name) {
  Location inner = UnknownLoc::get(&context);
  if (const json::Object *place = node.getObject("loc")) {
    std::optional<StringRef> file = place->getString("file");
    int64_t line = place->getInteger("line").value_or(0);
    if (file && !file->empty() && line >= 0 && line < INT32_MAX)
      inner = FileLineColLoc::get(&context, *file, line, 0);
  }
  loc = NameLoc::get(builder.getStringAttr(name), inner);
}

//===----------------------------------------------------------------------===//
// Inputs and symbols
//===----------------------------------------------------------------------===//

LogicalResult Reader::readSymbols(const json::Object &graph) {
  return objects(
      graph, "symbols",
      [&](const json::Object &symbol) -> LogicalResult {
        FailureOr<StringRef> name = text(symbol, "name");
        if (failed(name))
          return failure();
        sizes.declare(*name);
        return success();
      },
      /*required=*/false);
}

LogicalResult Reader::readInput(const json::Object &input) {
  FailureOr<StringRef> name = text(input, "name");
  if (failed(name))
    return failure();
  setLocation(input, *name);
  FailureOr<StringRef> kind = text(input, "kind");
  if (failed(kind))
    return failure();
  if (!llvm::is_contained(
          {"input", "parameter", "buffer", "constant", "scalar"}, *kind))
    return error() << "no such kind of input: '" << *kind << "'";
  StringRef label = input.getString("label").value_or(*name);
  NamedAttrList attrs;
  attrs.set("anabranch.name", builder.getStringAttr(label));
  attrs.set("anabranch.kind", builder.getStringAttr(*kind));
  argumentNames.push_back(name->str());
  if (*kind == "scalar") {
    argumentTypes.push_back(builder.getIndexType());
    argumentAttrs.push_back(attrs.getDictionary(&context));
    return success();
  }
  FailureOr<RankedTensorType> type = tensorType(input);
  if (failed(type))
    return failure();
  FailureOr<DenseI64ArrayAttr> layout = strides(input, type->getRank());
  if (failed(layout))
    return failure();
  attrs.set("anabranch.dtype",
            builder.getStringAttr(*input.getString("dtype")));
  if (*layout) {
    attrs.set("anabranch.strides", *layout);
    if (llvm::is_contained(layout->asArrayRef(), ShapedType::kDynamic))
      attrs.set("anabranch.copy_in", builder.getUnitAttr());
  }
  if (auto constant = input.getString("constant"))
    attrs.set("anabranch.constant", builder.getStringAttr(*constant));
  if (input.getBoolean("mutated").value_or(false))
    attrs.set("anabranch.mutated", builder.getUnitAttr());
  argumentTypes.push_back(*type);
  argumentAttrs.push_back(attrs.getDictionary(&context));
  return success();
}

/// A symbol is the scalar input that is exactly it, else the first dimension of
/// an input that is.
LogicalResult Reader::defineSymbols(const json::Array &inputs) {
  for (auto [input, name] : llvm::zip(inputs, argumentNames))
    if (auto symbol = input.getAsObject()->getString("expr"))
      sizes.define(*symbol, values[name].front());
  for (auto [input, name] : llvm::zip(inputs, argumentNames)) {
    const json::Array *shape = input.getAsObject()->getArray("shape");
    if (!shape)
      continue;
    for (auto [dim, size] : llvm::enumerate(*shape)) {
      std::optional<StringRef> symbol = size.getAsString();
      if (!symbol || sizes.isDefined(*symbol))
        continue;
      setLocation(*input.getAsObject(), name);
      if (!sizes.isDeclared(*symbol))
        return error() << "'" << *symbol << "' is not among the symbols";
      sizes.define(*symbol, builder.create<tensor::DimOp>(
                                loc, values[name].front(), dim));
    }
  }
  return success();
}

bool Reader::isDefined(const json::Value &expr) const {
  if (auto symbol = expr.getAsString())
    return sizes.isDefined(*symbol);
  const json::Array *parts = expr.getAsArray();
  return !parts ||
         llvm::all_of(llvm::drop_begin(*parts),
                      [&](const json::Value &part) { return isDefined(part); });
}

/// A size that follows from other inputs is checked at run time, since no guard
/// of PyTorch stands before a package that was loaded.
LogicalResult Reader::expectSize(Value size, const json::Value &expr) {
  // Nothing can depend on a symbol that no input defines.
  if (!isDefined(expr))
    return success();
  OpFoldResult same = sizes.build(expr, builder, loc);
  if (!same)
    return failure();
  if (same == OpFoldResult(size))
    return success();
  if (auto value = dyn_cast<Value>(same)) {
    auto dim = value.getDefiningOp<tensor::DimOp>();
    auto own = size.getDefiningOp<tensor::DimOp>();
    if (dim && own && dim.getSource() == own.getSource() &&
        dim.getConstantIndex() == own.getConstantIndex())
      return success(); // defines the symbol
    builder.create<ir::ExpectOp>(loc, size, value, IntegerAttr(),
                                 IntegerAttr());
    return success();
  }
  auto literal = builder.getI64IntegerAttr(
      cast<IntegerAttr>(cast<Attribute>(same)).getInt());
  builder.create<ir::ExpectOp>(loc, size, Value(), literal, literal);
  return success();
}

LogicalResult Reader::expectSizes(const json::Object &graph,
                                  const json::Array &inputs) {
  for (auto [input, name] : llvm::zip(inputs, argumentNames)) {
    const json::Object &object = *input.getAsObject();
    setLocation(object, name);
    Value value = values[name].front();
    if (const json::Value *expr = object.get("expr"))
      if (failed(expectSize(value, *expr)))
        return failure();
    const json::Array *shape = object.getArray("shape");
    if (!shape)
      continue;
    for (auto [dim, size] : llvm::enumerate(*shape)) {
      if (size.getAsInteger())
        continue;
      auto here = builder.create<tensor::DimOp>(loc, value, dim);
      if (failed(expectSize(here, size)))
        return failure();
      if (here->use_empty())
        here.erase();
    }
  }
  return objects(
      graph, "symbols",
      [&](const json::Object &symbol) -> LogicalResult {
        Value value = sizes.lookup(*symbol.getString("name"));
        auto min = symbol.getInteger("min"), max = symbol.getInteger("max");
        if (value && (min.value_or(0) > 0 || max))
          builder.create<ir::ExpectOp>(
              value.getLoc(), value, Value(),
              builder.getI64IntegerAttr(min.value_or(0)),
              max ? builder.getI64IntegerAttr(*max) : IntegerAttr());
        return success();
      },
      /*required=*/false);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// `aten.add.Tensor` is `add.Tensor` in `anabranch.aten`, `aten.mm.default` is
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

/// A tensor or symbolic size that the call takes; each value once.
Attribute Reader::operandFor(Value value) {
  auto *found = llvm::find(operands, value);
  int64_t index = found - operands.begin();
  if (found == operands.end())
    operands.push_back(value);
  return ir::OperandRefAttr::get(&context, index);
}

FailureOr<Attribute> Reader::taggedArgument(const json::Object &arg) {
  if (arg.get("ref")) {
    FailureOr<Value> value = reference(arg);
    if (failed(value))
      return failure();
    return operandFor(*value);
  }
  if (const json::Value *expr = arg.get("expr")) {
    OpFoldResult size = sizes.build(*expr, builder, loc);
    if (!size)
      return failure();
    if (auto value = dyn_cast<Value>(size))
      return operandFor(value);
    return Attribute(builder.getI64IntegerAttr(
        cast<IntegerAttr>(cast<Attribute>(size)).getInt()));
  }
  if (arg.get("dtype")) {
    FailureOr<DType> found = dtype(arg);
    if (failed(found))
      return failure();
    Type type = found->isUnsigned
                    ? IntegerType::get(&context, 8, IntegerType::Unsigned)
                    : found->type;
    return Attribute(TypeAttr::get(type));
  }
  if (const json::Value *number = arg.get("float")) {
    if (auto finite = number->getAsNumber())
      return Attribute(builder.getF64FloatAttr(*finite));
    double value;
    if (auto name = number->getAsString(); name && !name->getAsDouble(value))
      return Attribute(builder.getF64FloatAttr(value));
  }
  for (StringRef key : {"str", "device"})
    if (auto value = arg.getString(key))
      return Attribute(builder.getStringAttr(*value));
  for (StringRef key : {"layout", "memory_format"})
    if (auto value = arg.getInteger(key))
      return Attribute(builder.getI64IntegerAttr(*value));
  std::string shown = llvm::formatv("{0}", json::Value(json::Object(arg)));
  return error() << "no such argument: " << shown;
}

FailureOr<Attribute> Reader::argument(const json::Value &arg) {
  switch (arg.kind()) {
  case json::Value::Null:
    return Attribute(builder.getUnitAttr());
  case json::Value::Boolean:
    return Attribute(builder.getBoolAttr(*arg.getAsBoolean()));
  case json::Value::Number:
    if (auto integer = arg.getAsInteger())
      return Attribute(builder.getI64IntegerAttr(*integer));
    return Attribute(builder.getF64FloatAttr(*arg.getAsNumber()));
  case json::Value::String:
    return Attribute(builder.getStringAttr(*arg.getAsString()));
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
  return Attribute(builder.getArrayAttr(elements));
}

LogicalResult Reader::readArguments(const json::Object &node,
                                    OperationState &state) {
  const json::Object *args = node.getObject("args");
  if (!args)
    return error() << "'args' must be an object";
  NamedAttrList attrs;
  // By name, since the JSON object is hashed and operands are numbered here.
  SmallVector<StringRef> names;
  for (const auto &entry : *args)
    names.push_back(entry.first);
  llvm::sort(names);
  for (StringRef name : names) {
    if (name.empty())
      return error() << "an argument has no name";
    FailureOr<Attribute> attr = argument(*args->get(name));
    if (failed(attr))
      return failure();
    attrs.set(builder.getStringAttr(name), *attr);
  }
  state.addAttribute("args", attrs.getDictionary(&context));
  return success();
}

LogicalResult Reader::readResults(const json::Object &node,
                                  OperationState &state,
                                  SmallVectorImpl<Value> &dims,
                                  SmallVectorImpl<int64_t> &unsignedResults) {
  const json::Array *array = list(node, "results");
  if (!array)
    return failure();
  for (const json::Value &result : *array) {
    const json::Object *object = result.getAsObject();
    if (!object)
      return error() << "'results' must hold objects";
    FailureOr<RankedTensorType> type = tensorType(*object);
    if (failed(type))
      return failure();
    FailureOr<DType> element = dtype(*object);
    if (element->isUnsigned)
      unsignedResults.push_back(state.types.size());
    SmallVector<int64_t> shape(type->getShape());
    for (auto [dim, size] : llvm::enumerate(*object->getArray("shape"))) {
      if (!ShapedType::isDynamic(shape[dim]))
        continue;
      OpFoldResult value = sizes.build(size, builder, loc);
      if (!value)
        return failure();
      if (auto symbolic = dyn_cast<Value>(value))
        dims.push_back(symbolic);
      else // an expression that folded
        shape[dim] = cast<IntegerAttr>(cast<Attribute>(value)).getInt();
      if (!ShapedType::isDynamic(shape[dim]) && shape[dim] < 0)
        return error() << "a size is negative: " << shape[dim];
    }
    state.addTypes(RankedTensorType::get(shape, type->getElementType()));
  }
  return success();
}

/// The stream of a node and its cores; other annotations are the user's own.
LogicalResult Reader::readScope(const json::Object &node, Operation *op) {
  const json::Object *annotations = node.getObject("annotations");
  if (!annotations)
    return success();
  StringRef tag = annotations->getString("anabranch.stream").value_or("");
  int64_t priority = annotations->getInteger("anabranch.priority").value_or(0);
  int64_t cores = annotations->getInteger("anabranch.cores").value_or(0);
  if (std::abs(priority) > ir::kMaxPriority)
    return error() << "no such priority of a stream: " << priority;
  if (cores < 0 || cores > ir::kMaxCores)
    return error() << "no such number of cores: " << cores;
  if (annotations->getString("anabranch.stream") || cores > 0)
    ir::setScope(op, ir::ScopeAttr::get(&context, tag, priority, cores));
  return success();
}

LogicalResult Reader::readNode(const json::Object &node) {
  FailureOr<StringRef> name = text(node, "name");
  if (failed(name))
    return failure();
  setLocation(node, *name);
  FailureOr<StringRef> op = text(node, "op");
  if (failed(op))
    return failure();
  operands.clear();
  OperationState state(loc, ir::AtenOp::getOperationName());
  SmallVector<Value> dims;
  SmallVector<int64_t> unsignedResults, unsignedOperands;
  if (failed(readArguments(node, state)) ||
      failed(readResults(node, state, dims, unsignedResults)))
    return failure();
  for (auto [index, operand] : llvm::enumerate(operands))
    if (unsignedValues.contains(operand))
      unsignedOperands.push_back(index);
  state.addOperands(operands);
  state.addOperands(dims);
  state.addAttribute("callee", builder.getStringAttr(calleeOf(*op)));
  state.addAttribute("unsignedOperands",
                     builder.getDenseI64ArrayAttr(unsignedOperands));
  state.addAttribute("unsignedResults",
                     builder.getDenseI64ArrayAttr(unsignedResults));
  if (node.getBoolean("ordered").value_or(false))
    state.addAttribute("ordered", builder.getUnitAttr());
  state.addAttribute(
      "operandSegmentSizes",
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(operands.size()),
                                    static_cast<int32_t>(dims.size())}));
  Operation *call = builder.create(state);
  SmallVector<Value> made(call->getResults());
  for (auto [result, item] : llvm::zip(made, *node.getArray("results")))
    dtypes[result] = item.getAsObject()->getString("dtype")->str();
  for (int64_t index : unsignedResults)
    unsignedValues.insert(made[index]);
  if (!values.try_emplace(*name, made).second)
    return error() << "two nodes have this name";
  return readScope(node, call);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

void Reader::addResult(Value value, SmallVector<NamedAttribute> attrs) {
  if (auto name = dtypes.find(value); name != dtypes.end())
    attrs.push_back(builder.getNamedAttr("anabranch.dtype",
                                         builder.getStringAttr(name->second)));
  results.push_back(value);
  resultAttrs.push_back(builder.getDictionaryAttr(attrs));
}

LogicalResult Reader::readOutput(const json::Object &output) {
  loc = NameLoc::get(
      builder.getStringAttr("output " + std::to_string(results.size())));
  if (const json::Value *expr = output.get("expr")) {
    OpFoldResult size = sizes.build(*expr, builder, loc);
    if (!size)
      return failure();
    addResult(getValueOrCreateConstantIndexOp(builder, loc, size), {});
    return success();
  }
  if (output.get("none")) {
    // None has no value: an index that is never read keeps the numbering.
    addResult(
        getValueOrCreateConstantIndexOp(builder, loc, builder.getIndexAttr(0)),
        {builder.getNamedAttr("anabranch.none", builder.getUnitAttr())});
    return success();
  }
  FailureOr<Value> value = reference(output);
  if (failed(value))
    return failure();
  auto type = dyn_cast<RankedTensorType>(value->getType());
  SmallVector<NamedAttribute> attrs;
  if (type) {
    FailureOr<DenseI64ArrayAttr> layout = strides(output, type.getRank());
    if (failed(layout))
      return failure();
    if (*layout)
      attrs.push_back(builder.getNamedAttr("anabranch.strides", *layout));
  }
  addResult(*value, attrs);
  return success();
}

LogicalResult Reader::readMutation(const json::Object &mutation) {
  FailureOr<StringRef> input = text(mutation, "input");
  FailureOr<StringRef> from = text(mutation, "value");
  if (failed(input) || failed(from))
    return failure();
  setLocation(mutation, *input);
  const auto *argument = llvm::find(argumentNames, input->str());
  if (argument == argumentNames.end())
    return error() << "a mutation of what is no input";
  json::Object ref(mutation);
  ref["ref"] = from->str();
  FailureOr<Value> value = reference(ref);
  if (failed(value))
    return failure();
  int64_t number = argument - argumentNames.begin();
  if (value->getType() != argumentTypes[number])
    return error() << "a mutation writes " << value->getType() << " into "
                   << argumentTypes[number];
  addResult(*value, {builder.getNamedAttr("anabranch.writes",
                                          builder.getI64IntegerAttr(number))});
  return success();
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> Reader::read(const json::Object &graph) {
  if (graph.getInteger("version") != 1) {
    error() << "the graph description must have version 1";
    return {};
  }
  if (failed(readSymbols(graph)) ||
      failed(objects(graph, "inputs", [&](const json::Object &input) {
        return readInput(input);
      })))
    return {};
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  if (auto name = graph.getString("name"))
    (*module)->setAttr("anabranch.name", builder.getStringAttr(*name));
  builder.setInsertionPointToEnd(module->getBody());
  auto main = builder.create<func::FuncOp>(
      loc, "main", builder.getFunctionType(argumentTypes, {}));
  Block *entry = main.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  const json::Array &inputs = *graph.getArray("inputs");
  for (auto [argument, name, input] :
       llvm::zip(entry->getArguments(), argumentNames, inputs)) {
    if (!values.try_emplace(name, SmallVector<Value>{argument}).second) {
      error() << "two inputs are named '" << name << "'";
      return {};
    }
    if (auto kind = input.getAsObject()->getString("dtype")) {
      dtypes[argument] = kind->str();
      if (*kind == "u8")
        unsignedValues.insert(argument);
    }
  }
  auto node = [&](const json::Object &item) { return readNode(item); };
  auto output = [&](const json::Object &item) { return readOutput(item); };
  auto mutation = [&](const json::Object &item) { return readMutation(item); };
  if (failed(defineSymbols(inputs)) || failed(expectSizes(graph, inputs)) ||
      failed(objects(graph, "nodes", node)) ||
      failed(objects(graph, "outputs", output)) ||
      failed(objects(graph, "mutations", mutation, /*required=*/false)))
    return {};
  builder.create<func::ReturnOp>(loc, results);
  main.setType(
      builder.getFunctionType(argumentTypes, TypeRange(ValueRange(results))));
  main.setAllArgAttrs(argumentAttrs);
  main.setAllResultAttrs(resultAttrs);
  if (failed(verify(*module)))
    return {};
  return module;
}

/// The JSON parser recurses: text that nests deeper than any graph does would
/// overflow its stack.
static bool nestsTooDeep(llvm::StringRef text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > 200)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

} // namespace importer

OwningOpRef<ModuleOp> importGraph(llvm::StringRef text, MLIRContext &context,
                                  const Binding &binding) {
  Location unknown = UnknownLoc::get(&context);
  context.loadDialect<ir::AnabranchDialect, func::FuncDialect,
                      arith::ArithDialect, tensor::TensorDialect>();
  if (importer::nestsTooDeep(text)) {
    emitError(unknown) << "the graph description nests too deeply";
    return {};
  }
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    emitError(unknown) << "the graph description is no JSON: "
                       << llvm::toString(parsed.takeError());
    return {};
  }
  json::Object *graph = parsed->getAsObject();
  if (!graph) {
    emitError(unknown) << "the graph description must be an object";
    return {};
  }
  if (llvm::Error error = bindSymbols(*graph, binding)) {
    emitError(unknown) << llvm::toString(std::move(error));
    return {};
  }
  return importer::Reader(context).read(*graph);
}

} // namespace anabranch
