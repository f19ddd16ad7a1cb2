//===- InputReader.cpp - inputs and symbols of a description --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/InputReader.h"
#include "ir/Anabranch.h"
#include "ir/ResultDims.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

LogicalResult InputReader::read(const json::Object &graph) {
  auto declare = [&](const json::Object &symbol) -> LogicalResult {
    FailureOr<StringRef> name = in.text(symbol, "name");
    if (failed(name))
      return failure();
    values.sizes.declare(*name);
    return success();
  };
  if (failed(in.objects(graph, "symbols", declare, /*required=*/false)))
    return failure();
  return in.objects(graph, "inputs", [&](const json::Object &input) {
    return readInput(input);
  });
}

LogicalResult InputReader::readInput(const json::Object &input) {
  FailureOr<StringRef> name = in.enter(input);
  if (failed(name))
    return failure();
  FailureOr<StringRef> kind = in.text(input, "kind");
  if (failed(kind))
    return failure();
  if (!llvm::is_contained(
          {"input", "parameter", "buffer", "constant", "scalar"}, *kind))
    return in.error() << "no such kind of input: '" << *kind << "'";
  StringRef label = input.getString("label").value_or(*name);
  NamedAttrList own;
  own.set("anabranch.name", in.builder.getStringAttr(label));
  own.set("anabranch.kind", in.builder.getStringAttr(*kind));
  names.push_back(name->str());
  if (*kind == "scalar") {
    types.push_back(in.builder.getIndexType());
    attrs.push_back(own.getDictionary(&in.context));
    return success();
  }
  FailureOr<RankedTensorType> type = in.tensorType(input);
  if (failed(type))
    return failure();
  FailureOr<DenseI64ArrayAttr> layout = in.strides(input, type->getRank());
  if (failed(layout))
    return failure();
  own.set("anabranch.dtype",
          in.builder.getStringAttr(*input.getString("dtype")));
  if (*layout) {
    own.set("anabranch.strides", *layout);
    if (llvm::is_contained(layout->asArrayRef(), ShapedType::kDynamic))
      own.set("anabranch.copy_in", in.builder.getUnitAttr());
  }
  if (auto constant = input.getString("constant"))
    own.set("anabranch.constant", in.builder.getStringAttr(*constant));
  if (input.getBoolean("watched").value_or(false)) {
    if (!type->hasStaticShape() || own.get("anabranch.constant") ||
        input.getBoolean("mutated").value_or(false))
      return in.error()
             << "a watched input has known sizes, no value, and no writes";
    own.set("anabranch.watched", in.builder.getUnitAttr());
  }
  if (failed(readRange(input, own)) || failed(readGroups(input, own)))
    return failure();
  if (input.getBoolean("mutated").value_or(false))
    own.set("anabranch.mutated", in.builder.getUnitAttr());
  types.push_back(*type);
  attrs.push_back(own.getDictionary(&in.context));
  return success();
}

/// Reads the smallest and the largest integer of a frozen value, if the
/// description has them.
LogicalResult InputReader::readRange(const json::Object &input,
                                     NamedAttrList &own) {
  const json::Value *given = input.get("range");
  if (!given)
    return success();
  const json::Array *ends = given->getAsArray();
  if (!ends || ends->size() != 2 || !input.getString("constant"))
    return in.error() << "a range is two integers of a constant";
  auto low = (*ends)[0].getAsInteger(), high = (*ends)[1].getAsInteger();
  if (!low || !high || *low > *high)
    return in.error() << "a range is two integers of a constant";
  own.set("anabranch.range", in.builder.getDenseI64ArrayAttr({*low, *high}));
  return success();
}

/// Reads what the description says of a frozen list that names the group of
/// each position, if it says anything.
LogicalResult InputReader::readGroups(const json::Object &input,
                                      NamedAttrList &own) {
  for (StringRef key : {"quotients", "groups"}) {
    const json::Value *given = input.get(key);
    if (!given)
      continue;
    auto size = given->getAsInteger();
    if (!size || *size <= 0 || !input.getString("constant"))
      return in.error() << key << " have a size above zero, of a constant";
    own.set(("anabranch." + key).str(), in.builder.getI64IntegerAttr(*size));
  }
  return success();
}

LogicalResult InputReader::define(const json::Object &graph,
                                  ValueRange arguments) {
  const json::Array &inputs = *graph.getArray("inputs");
  if (failed(nameArguments(inputs, arguments)) || failed(defineSymbols(inputs)))
    return failure();
  return expectSizes(graph, inputs);
}

LogicalResult InputReader::nameArguments(const json::Array &inputs,
                                         ValueRange arguments) {
  for (auto [argument, name, input] : llvm::zip(arguments, names, inputs)) {
    if (!values.add(name, argument))
      return in.error() << "two inputs are named '" << name << "'";
    if (auto dtype = input.getAsObject()->getString("dtype"))
      values.setDType(argument, *dtype);
  }
  return success();
}

/// Defines each symbol: by the scalar input that equals it, else by the first
/// dimension of an input that equals it.
LogicalResult InputReader::defineSymbols(const json::Array &inputs) {
  for (auto [input, name] : llvm::zip(inputs, names))
    if (auto symbol = input.getAsObject()->getString("expr"))
      values.sizes.define(*symbol, values.input(name));
  for (auto [input, name] : llvm::zip(inputs, names)) {
    const json::Array *shape = input.getAsObject()->getArray("shape");
    if (!shape)
      continue;
    for (auto [dim, size] : llvm::enumerate(*shape)) {
      std::optional<StringRef> symbol = size.getAsString();
      if (!symbol || values.sizes.isDefined(*symbol))
        continue;
      in.setLocation(*input.getAsObject(), name);
      if (!values.sizes.isDeclared(*symbol))
        return in.error() << "'" << *symbol << "' is not among the symbols";
      values.sizes.define(*symbol, in.builder.create<tensor::DimOp>(
                                       in.loc, values.input(name), dim));
    }
  }
  return success();
}

bool InputReader::isDefined(const json::Value &expr) const {
  if (auto symbol = expr.getAsString())
    return values.sizes.isDefined(*symbol);
  const json::Array *parts = expr.getAsArray();
  return !parts ||
         llvm::all_of(llvm::drop_begin(*parts),
                      [&](const json::Value &part) { return isDefined(part); });
}

/// Has the program check a size that follows from other inputs. A package that
/// was loaded has no guards of PyTorch.
LogicalResult InputReader::expectSize(Value size, const json::Value &expr) {
  // No value can depend on a symbol that no input defines.
  if (!isDefined(expr))
    return success();
  OpFoldResult same = values.sizes.build(expr, in.builder, in.loc);
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
    in.builder.create<ir::ExpectOp>(in.loc, size, value, IntegerAttr(),
                                    IntegerAttr());
    return success();
  }
  auto literal = in.builder.getI64IntegerAttr(
      cast<IntegerAttr>(cast<Attribute>(same)).getInt());
  in.builder.create<ir::ExpectOp>(in.loc, size, Value(), literal, literal);
  return success();
}

LogicalResult InputReader::expectSizes(const json::Object &graph,
                                       const json::Array &inputs) {
  for (auto [input, name] : llvm::zip(inputs, names)) {
    const json::Object &object = *input.getAsObject();
    in.setLocation(object, name);
    Value value = values.input(name);
    if (const json::Value *expr = object.get("expr"))
      if (failed(expectSize(value, *expr)))
        return failure();
    const json::Array *shape = object.getArray("shape");
    if (!shape)
      continue;
    for (auto [dim, size] : llvm::enumerate(*shape)) {
      if (size.getAsInteger())
        continue;
      auto here = in.builder.create<tensor::DimOp>(in.loc, value, dim);
      if (failed(expectSize(here, size)))
        return failure();
      if (here->use_empty())
        here.erase();
    }
  }
  return in.objects(
      graph, "symbols",
      [&](const json::Object &symbol) -> LogicalResult {
        Value value = values.sizes.lookup(*symbol.getString("name"));
        auto min = symbol.getInteger("min"), max = symbol.getInteger("max");
        // A symbol without "min" may be a number below zero.
        if (value && (min.value_or(0) > 0 || max))
          in.builder.create<ir::ExpectOp>(
              value.getLoc(), value, Value(),
              in.builder.getI64IntegerAttr(min.value_or(INT64_MIN)),
              max ? in.builder.getI64IntegerAttr(*max) : IntegerAttr());
        return success();
      },
      /*required=*/false);
}

LogicalResult InputReader::readChecks(const json::Object &graph) {
  auto read = [&](const json::Object &check) -> LogicalResult {
    FailureOr<StringRef> message = in.text(check, "message");
    const json::Value *condition = check.get("expr");
    if (failed(message) || !condition)
      return in.error() << "a check needs 'expr' and 'message'";
    in.setLocation(check, "check");
    OpFoldResult holds = values.sizes.build(*condition, in.builder, in.loc);
    if (!holds)
      return failure();
    auto size = dyn_cast<Value>(holds);
    if (!size)
      return success();
    auto one = in.builder.getI64IntegerAttr(1);
    auto made =
        in.builder.create<ir::ExpectOp>(in.loc, size, Value(), one, one);
    made->setAttr(ir::checkMessageAttr, in.builder.getStringAttr(*message));
    return success();
  };
  return in.objects(graph, "checks", read, /*required=*/false);
}

} // namespace importer
} // namespace anabranch
