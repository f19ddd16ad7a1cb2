//===- BlockingParameters.cpp - what tuning may set of a plan -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/BlockingParameters.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace anabranch {
namespace kernels {

namespace {

struct Field {
  StringLiteral name;
  std::optional<int64_t> BlockingParameters::*value;
};

constexpr Field fields[] = {
    {"rows", &BlockingParameters::rows},
    {"vectors", &BlockingParameters::vectors},
    {"depth", &BlockingParameters::depth},
    {"rows_per_tile", &BlockingParameters::rowsPerTile},
    {"panels_per_tile", &BlockingParameters::panelsPerTile},
    {"bytes_ahead", &BlockingParameters::bytesAhead},
};

bool isName(StringRef text) {
  return !text.empty() && all_of(text, [](char c) {
    return isLower(c) || isDigit(c) || c == '_';
  });
}

} // namespace

int64_t BlockingParameters::count() const {
  return count_if(fields, [&](const Field &field) {
    return (this->*field.value).has_value();
  });
}

std::string BlockingParameters::text() const {
  std::string text = plan.empty() ? "" : "plan=" + plan;
  for (const Field &field : fields)
    if (const std::optional<int64_t> &value = this->*field.value)
      text += (text.empty() ? "" : ",") + field.name.str() + "=" +
              std::to_string(*value);
  return text;
}

std::optional<BlockingParameters> BlockingParameters::parse(StringRef text) {
  BlockingParameters parameters;
  SmallVector<StringRef> parts;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!text.empty());
  for (StringRef part : parts) {
    StringRef name = part.split('=').first, number = part.split('=').second;
    const Field *field =
        find_if(fields, [&](const Field &f) { return f.name == name; });
    if (name == "plan" && parameters.plan.empty() && isName(number)) {
      parameters.plan = number.str();
      continue;
    }
    int64_t value;
    if (field == std::end(fields) || number.getAsInteger(10, value) ||
        value < 0 || parameters.*field->value)
      return std::nullopt;
    parameters.*field->value = value;
  }
  if (parameters.rows.has_value() != parameters.vectors.has_value())
    return std::nullopt;
  return parameters;
}

BlockingParameters BlockingParameters::of(mlir::func::FuncOp kernel,
                                          StringRef plan) {
  auto text = kernel->getAttrOfType<mlir::StringAttr>(attribute);
  auto given = text ? parse(text.getValue()) : std::nullopt;
  if (!given || (!given->plan.empty() && given->plan != plan))
    return {};
  return *given;
}

} // namespace kernels
} // namespace anabranch
