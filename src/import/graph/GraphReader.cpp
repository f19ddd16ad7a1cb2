//===- GraphReader.cpp - graph description to level "aten" ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/GraphReader.h"
#include "import/graph/InputReader.h"
#include "import/graph/NodeReader.h"
#include "import/graph/OutputReader.h"
#include "ir/Anabranch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

/// Builds the module of level "aten" from a description whose symbols are
/// bound.
static OwningOpRef<ModuleOp> readGraph(const json::Object &graph,
                                       MLIRContext &context) {
  DescriptionPieces in(context);
  GraphValues values(in);
  InputReader inputs(in, values);
  NodeReader nodes(in, values);
  OutputReader outputs(in, values, inputs);
  if (graph.getInteger("version") != 1) {
    in.error() << "the graph description must have version 1";
    return {};
  }
  if (failed(inputs.read(graph)))
    return {};
  OpBuilder &builder = in.builder;
  OwningOpRef<ModuleOp> module = ModuleOp::create(in.loc);
  if (auto name = graph.getString("name"))
    (*module)->setAttr("anabranch.name", builder.getStringAttr(*name));
  builder.setInsertionPointToEnd(module->getBody());
  auto main = builder.create<func::FuncOp>(
      in.loc, "main", builder.getFunctionType(inputs.types, {}));
  Block *entry = main.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  auto node = [&](const json::Object &item) { return nodes.read(item); };
  if (failed(inputs.define(graph, entry->getArguments())) ||
      failed(inputs.readChecks(graph)) ||
      failed(in.objects(graph, "nodes", node)) || failed(outputs.read(graph)))
    return {};
  builder.create<func::ReturnOp>(in.loc, outputs.results);
  main.setType(builder.getFunctionType(inputs.types,
                                       TypeRange(ValueRange(outputs.results))));
  main.setAllArgAttrs(inputs.attrs);
  main.setAllResultAttrs(outputs.attrs);
  if (failed(verify(*module)))
    return {};
  return module;
}

/// The JSON parser recurses. Text that nests deeper than any graph would
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

/// Reads the text, or returns null after a diagnostic.
static json::Value parseGraph(llvm::StringRef text, MLIRContext &context) {
  Location unknown = UnknownLoc::get(&context);
  context.loadDialect<ir::AnabranchDialect, func::FuncDialect,
                      arith::ArithDialect, tensor::TensorDialect>();
  if (importer::nestsTooDeep(text)) {
    emitError(unknown) << "the graph description nests too deeply";
    return nullptr;
  }
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    emitError(unknown) << "the graph description is no JSON: "
                       << llvm::toString(parsed.takeError());
    return nullptr;
  }
  if (!parsed->getAsObject()) {
    emitError(unknown) << "the graph description must be an object";
    return nullptr;
  }
  return std::move(*parsed);
}

/// Makes the module of one graph, without its regions.
static OwningOpRef<ModuleOp>
importOne(json::Object &graph, MLIRContext &context, const Binding &binding) {
  if (llvm::Error error = bindSymbols(graph, binding)) {
    emitError(UnknownLoc::get(&context)) << llvm::toString(std::move(error));
    return {};
  }
  return importer::readGraph(graph, context);
}

OwningOpRef<ModuleOp> importGraph(llvm::StringRef text, MLIRContext &context,
                                  const Binding &binding) {
  json::Value parsed = parseGraph(text, context);
  json::Object *graph = parsed.getAsObject();
  return graph ? importOne(*graph, context, binding) : OwningOpRef<ModuleOp>();
}

/// The part of a binding that is for symbols of the graph. A region may lack
/// symbols of the graph around it.
static Binding bindingFor(json::Object &graph, const Binding &binding) {
  Binding part;
  if (json::Array *symbols = graph.getArray("symbols"))
    for (json::Value &entry : *symbols)
      if (json::Object *symbol = entry.getAsObject())
        if (auto name = symbol->getString("name"); name && binding.count(*name))
          part[*name] = binding.lookup(*name);
  return part;
}

SmallVector<OwningOpRef<ModuleOp>> importWithRegions(llvm::StringRef text,
                                                     MLIRContext &context,
                                                     const Binding &binding) {
  json::Value parsed = parseGraph(text, context);
  SmallVector<json::Object *> graphs;
  if (json::Object *graph = parsed.getAsObject()) {
    graphs.push_back(graph);
    if (json::Array *regions = graph->getArray("regions"))
      for (json::Value &region : *regions)
        graphs.push_back(region.getAsObject());
  }
  SmallVector<OwningOpRef<ModuleOp>> modules;
  for (json::Object *graph : graphs) {
    if (!graph) {
      emitError(UnknownLoc::get(&context)) << "'regions' must hold objects";
      return {};
    }
    bool isRegion = !modules.empty();
    modules.push_back(importOne(
        *graph, context, isRegion ? bindingFor(*graph, binding) : binding));
    if (!modules.back())
      return {};
    if (isRegion)
      (*modules.back())->setAttr("anabranch.region", UnitAttr::get(&context));
  }
  return modules;
}

} // namespace anabranch
