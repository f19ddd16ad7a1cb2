//===- BindSymbols.cpp - a graph description for known sizes --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/BindSymbols.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace anabranch {
namespace {

Error refuse(const Twine &why) {
  return createStringError(inconvertibleErrorCode(), why);
}

class Binder {
public:
  explicit Binder(const Binding &binding) : binding(binding) {}

  Error run(json::Object &graph);

private:
  Error takeSymbols(json::Object &graph);
  Error bindInput(json::Object &input);
  Error bindObject(json::Object &object);
  Error bindValue(json::Value &value);
  Error bindSizes(json::Object &object, StringRef key);
  Error bindExpr(json::Value &expr, int depth = 0);

  const Binding &binding;
};

std::optional<int64_t> apply(StringRef name, int64_t a, int64_t b) {
  std::optional<int64_t> result;
  int64_t value = 0;
  // Zero divides as one does, as in GraphExpr.
  int64_t divisor = b == 0 ? 1 : b;
  if (divisor == -1 && a == INT64_MIN)
    return std::nullopt;
  if (name == "add" && !AddOverflow(a, b, value))
    result = value;
  else if (name == "sub" && !SubOverflow(a, b, value))
    result = value;
  else if (name == "mul" && !MulOverflow(a, b, value))
    result = value;
  else if (name == "floordiv")
    result = divideFloorSigned(a, divisor);
  else if (name == "ceildiv")
    result = divideCeilSigned(a, divisor);
  else if (name == "mod")
    result = a - divideFloorSigned(a, divisor) * divisor;
  else if (name == "min")
    result = std::min(a, b);
  else if (name == "max")
    result = std::max(a, b);
  else if (name == "pow" && b >= 0 && b <= 62) {
    result = 1;
    for (int64_t i = 0; i < b && result; ++i)
      result = MulOverflow(*result, a, value) ? std::nullopt
                                              : std::optional<int64_t>(value);
  }
  return result;
}

Error Binder::bindExpr(json::Value &expr, int depth) {
  if (std::optional<StringRef> symbol = expr.getAsString()) {
    if (auto found = binding.find(*symbol); found != binding.end())
      expr = found->second;
    return Error::success();
  }
  json::Array *parts = expr.getAsArray();
  // GraphExpr reports values that are no expressions.
  if (!parts || parts->size() < 2 || parts->size() > 3 ||
      !(*parts)[0].getAsString() || depth > 200)
    return Error::success();
  for (size_t i = 1; i < parts->size(); ++i)
    if (Error error = bindExpr((*parts)[i], depth + 1))
      return error;
  std::string name = (*parts)[0].getAsString()->str();
  // GraphExpr computes floats.
  if (parts->size() == 2 || name == "truediv")
    return Error::success();
  auto a = (*parts)[1].getAsInteger(), b = (*parts)[2].getAsInteger();
  if (!a || !b)
    return Error::success();
  std::optional<int64_t> result = apply(name, *a, *b);
  if (!result)
    return refuse("the size " + name + "(" + Twine(*a) + ", " + Twine(*b) +
                  ") overflows or is none");
  expr = *result;
  return Error::success();
}

Error Binder::bindSizes(json::Object &object, StringRef key) {
  if (json::Array *sizes = object.getArray(key))
    for (json::Value &size : *sizes)
      if (Error error = bindExpr(size))
        return error;
  return Error::success();
}

/// Binds shapes, strides and {"expr"} at any depth below.
Error Binder::bindObject(json::Object &object) {
  for (StringRef key : {"shape", "strides"})
    if (Error error = bindSizes(object, key))
      return error;
  if (json::Value *expr = object.get("expr"))
    if (Error error = bindExpr(*expr))
      return error;
  for (StringRef key : {"args", "results"})
    if (json::Value *value = object.get(key)) {
      if (json::Object *arguments = value->getAsObject()) {
        for (auto &entry : *arguments)
          if (Error error = bindValue(entry.second))
            return error;
      } else if (Error error = bindValue(*value)) {
        return error;
      }
    }
  return Error::success();
}

Error Binder::bindValue(json::Value &value) {
  if (json::Object *object = value.getAsObject())
    return bindObject(*object);
  if (json::Array *items = value.getAsArray())
    for (json::Value &item : *items)
      if (Error error = bindValue(item))
        return error;
  return Error::success();
}

/// For symbolic strides the host passes a contiguous copy, whichever program
/// the call goes to.
Error Binder::bindInput(json::Object &input) {
  if (json::Array *strides = input.getArray("strides"))
    if (llvm::any_of(*strides, [](const json::Value &stride) {
          return !stride.getAsInteger();
        }))
      input.erase("strides");
  return bindObject(input);
}

/// Removes bound symbols from the list of symbols.
Error Binder::takeSymbols(json::Object &graph) {
  StringMap<bool> seen;
  json::Array kept;
  if (json::Array *symbols = graph.getArray("symbols")) {
    for (json::Value &entry : *symbols) {
      json::Object *symbol = entry.getAsObject();
      auto name = symbol ? symbol->getString("name") : std::nullopt;
      auto found = name ? binding.find(*name) : binding.end();
      if (found == binding.end()) {
        kept.push_back(std::move(entry));
        continue;
      }
      int64_t value = found->second;
      if (value < symbol->getInteger("min").value_or(0) ||
          value > symbol->getInteger("max").value_or(INT64_MAX))
        return refuse("the binding " + *name + " = " + Twine(value) +
                      " is outside of the symbol's limits");
      seen[*name] = true;
    }
    *symbols = std::move(kept);
  }
  for (const auto &entry : binding)
    if (!seen.contains(entry.first()))
      return refuse("the binding names '" + entry.first() +
                    "', which is not among the symbols");
  return Error::success();
}

Error Binder::run(json::Object &graph) {
  if (Error error = takeSymbols(graph))
    return error;
  if (json::Array *inputs = graph.getArray("inputs"))
    for (json::Value &input : *inputs)
      if (json::Object *object = input.getAsObject())
        if (Error error = bindInput(*object))
          return error;
  for (StringRef key : {"nodes", "outputs", "checks"})
    if (json::Value *value = graph.get(key))
      if (Error error = bindValue(*value))
        return error;
  return Error::success();
}

} // namespace

Error bindSymbols(json::Object &graph, const Binding &binding) {
  return Binder(binding).run(graph);
}

} // namespace anabranch
