//===- OutputReader.cpp - outputs and mutations of a description ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/OutputReader.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

LogicalResult OutputReader::read(const json::Object &graph) {
  auto output = [&](const json::Object &item) { return readOutput(item); };
  auto mutation = [&](const json::Object &item) { return readMutation(item); };
  if (failed(in.objects(graph, "outputs", output)))
    return failure();
  return in.objects(graph, "mutations", mutation, /*required=*/false);
}

void OutputReader::addResult(Value value, SmallVector<NamedAttribute> own) {
  if (StringRef dtype = values.dtypeOf(value); !dtype.empty())
    own.push_back(in.builder.getNamedAttr("anabranch.dtype",
                                          in.builder.getStringAttr(dtype)));
  results.push_back(value);
  attrs.push_back(in.builder.getDictionaryAttr(own));
}

LogicalResult OutputReader::readOutput(const json::Object &output) {
  in.loc = NameLoc::get(
      in.builder.getStringAttr("output " + std::to_string(results.size())));
  if (const json::Value *expr = output.get("expr")) {
    OpFoldResult size = values.sizes.build(*expr, in.builder, in.loc);
    if (!size)
      return failure();
    addResult(getValueOrCreateConstantIndexOp(in.builder, in.loc, size), {});
    return success();
  }
  if (output.get("none")) {
    // None has no value. An index without readers keeps the numbering.
    addResult(
        getValueOrCreateConstantIndexOp(in.builder, in.loc,
                                        in.builder.getIndexAttr(0)),
        {in.builder.getNamedAttr("anabranch.none", in.builder.getUnitAttr())});
    return success();
  }
  FailureOr<Value> value = values.reference(output);
  if (failed(value))
    return failure();
  auto type = dyn_cast<RankedTensorType>(value->getType());
  SmallVector<NamedAttribute> own;
  if (type) {
    FailureOr<DenseI64ArrayAttr> layout = in.strides(output, type.getRank());
    if (failed(layout))
      return failure();
    if (*layout)
      own.push_back(in.builder.getNamedAttr("anabranch.strides", *layout));
  }
  addResult(*value, own);
  return success();
}

LogicalResult OutputReader::readMutation(const json::Object &mutation) {
  FailureOr<StringRef> input = in.text(mutation, "input");
  FailureOr<StringRef> from = in.text(mutation, "value");
  if (failed(input) || failed(from))
    return failure();
  in.setLocation(mutation, *input);
  const auto *argument = llvm::find(inputs.names, input->str());
  if (argument == inputs.names.end())
    return in.error() << "a mutation of what is no input";
  json::Object ref(mutation);
  ref["ref"] = from->str();
  FailureOr<Value> value = values.reference(ref);
  if (failed(value))
    return failure();
  int64_t number = argument - inputs.names.begin();
  // A trace may have learnt a size of the new value that it did not know when
  // it described the input.
  Type wanted = inputs.types[number];
  if (!tensor::CastOp::areCastCompatible(value->getType(), wanted))
    return in.error() << "a mutation writes " << value->getType() << " into "
                      << wanted;
  Value written = *value;
  if (written.getType() != wanted)
    written = in.builder.create<tensor::CastOp>(in.loc, wanted, written);
  addResult(written,
            {in.builder.getNamedAttr("anabranch.writes",
                                     in.builder.getI64IntegerAttr(number))});
  return success();
}

} // namespace importer
} // namespace anabranch
