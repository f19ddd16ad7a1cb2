//===- DescriptionPieces.cpp - what descriptions are made of --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/DescriptionPieces.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

DescriptionPieces::DescriptionPieces(MLIRContext &context)
    : context(context), builder(&context), loc(UnknownLoc::get(&context)) {}

const json::Array *DescriptionPieces::list(const json::Object &object,
                                           StringRef key, bool required) {
  static const json::Array empty;
  const json::Value *value = object.get(key);
  if (!value && !required)
    return &empty;
  const json::Array *array = value ? value->getAsArray() : nullptr;
  if (!array)
    error() << "'" << key << "' must be a list";
  return array;
}

LogicalResult DescriptionPieces::objects(
    const json::Object &object, StringRef key,
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

FailureOr<StringRef> DescriptionPieces::text(const json::Object &object,
                                             StringRef key) {
  if (std::optional<StringRef> value = object.getString(key))
    return *value;
  return error() << "'" << key << "' must be a string";
}

FailureOr<DType> DescriptionPieces::dtype(const json::Object &object) {
  FailureOr<StringRef> name = text(object, "dtype");
  if (failed(name))
    return failure();
  if (std::optional<DType> found = parseDType(*name, &context))
    return *found;
  return error() << "no such dtype: '" << *name << "'";
}

FailureOr<RankedTensorType>
DescriptionPieces::tensorType(const json::Object &object) {
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
    // Counts of bytes must stay far from overflow.
    if (integer && *integer > 0 && (elements > (int64_t(1) << 56) / *integer))
      return error() << "a tensor is too large";
    if (integer && *integer > 0)
      elements *= *integer;
    dims.push_back(integer.value_or(ShapedType::kDynamic));
  }
  return RankedTensorType::get(dims, element->type);
}

FailureOr<DenseI64ArrayAttr>
DescriptionPieces::strides(const json::Object &object, int64_t rank) {
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

FailureOr<StringRef> DescriptionPieces::enter(const json::Object &node) {
  FailureOr<StringRef> name = text(node, "name");
  if (succeeded(name))
    setLocation(node, *name);
  return name;
}

void DescriptionPieces::setLocation(const json::Object &node, StringRef name) {
  Location inner = UnknownLoc::get(&context);
  if (const json::Object *place = node.getObject("loc")) {
    std::optional<StringRef> file = place->getString("file");
    int64_t line = place->getInteger("line").value_or(0);
    if (file && !file->empty() && line >= 0 && line < INT32_MAX)
      inner = FileLineColLoc::get(&context, *file, line, 0);
  }
  loc = NameLoc::get(builder.getStringAttr(name), inner);
}

} // namespace importer
} // namespace anabranch
