//===- ReadInputs.cpp - inputs and symbols of a description ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/graph/GraphBuilder.h"
#include "ir/Anabranch.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

LogicalResult GraphBuilder::readSymbols(const json::Object &graph) {
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

LogicalResult GraphBuilder::readInput(const json::Object &input) {
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
LogicalResult GraphBuilder::defineSymbols(const json::Array &inputs) {
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

bool GraphBuilder::isDefined(const json::Value &expr) const {
  if (auto symbol = expr.getAsString())
    return sizes.isDefined(*symbol);
  const json::Array *parts = expr.getAsArray();
  return !parts ||
         llvm::all_of(llvm::drop_begin(*parts),
                      [&](const json::Value &part) { return isDefined(part); });
}

/// A size that follows from other inputs is checked at run time, since no guard
/// of PyTorch stands before a package that was loaded.
LogicalResult GraphBuilder::expectSize(Value size, const json::Value &expr) {
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

LogicalResult GraphBuilder::expectSizes(const json::Object &graph,
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

} // namespace importer
} // namespace anabranch
