//===- GraphReader.cpp - graph description to level "aten" ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/graph/GraphReader.h"
#include "import/graph/GraphBuilder.h"
#include "ir/Anabranch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

void GraphBuilder::addResult(Value value, SmallVector<NamedAttribute> attrs) {
  if (auto name = dtypes.find(value); name != dtypes.end())
    attrs.push_back(builder.getNamedAttr("anabranch.dtype",
                                         builder.getStringAttr(name->second)));
  results.push_back(value);
  resultAttrs.push_back(builder.getDictionaryAttr(attrs));
}

LogicalResult GraphBuilder::readOutput(const json::Object &output) {
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

LogicalResult GraphBuilder::readMutation(const json::Object &mutation) {
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

OwningOpRef<ModuleOp> GraphBuilder::read(const json::Object &graph) {
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
  return importer::GraphBuilder(context).read(*graph);
}

} // namespace anabranch
