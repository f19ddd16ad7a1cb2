//===- GraphValues.cpp - values that a description names ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/GraphValues.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace importer {

bool GraphValues::add(StringRef name, ArrayRef<Value> made) {
  return values.try_emplace(name, made).second;
}

void GraphValues::setDType(Value value, StringRef dtype) {
  dtypes[value] = dtype.str();
}

FailureOr<Value> GraphValues::reference(const json::Object &object) const {
  FailureOr<StringRef> name = in.text(object, "ref");
  if (failed(name))
    return failure();
  auto found = values.find(*name);
  if (found == values.end())
    return in.error() << "no node before this one is named '" << *name << "'";
  int64_t result = object.getInteger("result").value_or(0);
  if (result < 0 || result >= static_cast<int64_t>(found->second.size()))
    return in.error() << "'" << *name << "' has no result " << result;
  return found->second[result];
}

Value GraphValues::input(StringRef name) const {
  return values.find(name)->second.front();
}

StringRef GraphValues::dtypeOf(Value value) const {
  auto found = dtypes.find(value);
  return found == dtypes.end() ? StringRef() : StringRef(found->second);
}

bool GraphValues::isUnsigned(Value value) const {
  return dtypeOf(value) == "u8";
}

} // namespace importer
} // namespace anabranch
