//===- SteadyInput.h - inputs whose values seldom change --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_STEADYINPUT_H
#define ANABRANCH_IR_STEADYINPUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <utility>

namespace anabranch {
namespace ir {

/// The attributes of an argument of @main; null for other values.
inline mlir::DictionaryAttr attributesOfArgument(mlir::Value value) {
  auto argument = mlir::dyn_cast_or_null<mlir::BlockArgument>(value);
  auto main = argument ? mlir::dyn_cast<mlir::func::FuncOp>(
                             argument.getOwner()->getParentOp())
                       : mlir::func::FuncOp();
  return main ? main.getArgAttrDict(argument.getArgNumber())
              : mlir::DictionaryAttr();
}

/// Whether a value is an argument of @main that is frozen, or watched: calls
/// pass a watched one, and say whether it is as it was. What depends on steady
/// arguments alone is computed by `initialize`: at load if they are frozen,
/// else by the first call and by those that find a watched one changed.
inline bool isSteady(mlir::Value value) {
  mlir::DictionaryAttr attributes = attributesOfArgument(value);
  return attributes && (attributes.contains("anabranch.constant") ||
                        attributes.contains("anabranch.watched"));
}

/// The least and the greatest integer that the graph description gives for a
/// frozen argument, if it gives them.
inline std::optional<std::pair<int64_t, int64_t>> rangeOf(mlir::Value value) {
  mlir::DictionaryAttr attributes = attributesOfArgument(value);
  auto ends = attributes
                  ? attributes.getAs<mlir::DenseI64ArrayAttr>("anabranch.range")
                  : mlir::DenseI64ArrayAttr();
  if (!ends || ends.size() != 2)
    return std::nullopt;
  return std::pair(ends[0], ends[1]);
}

/// A number that the description gives for an argument; zero if it gives none.
inline int64_t numberOf(mlir::Value value, llvm::StringRef attribute) {
  mlir::DictionaryAttr attributes = attributesOfArgument(value);
  auto number = attributes ? attributes.getAs<mlir::IntegerAttr>(attribute)
                           : mlir::IntegerAttr();
  return number ? number.getInt() : 0;
}

/// The number by which the description says that a frozen list of integers is
/// the quotients of its positions: 0, 0, 0, 1, 1, 1, ...; zero if it does not.
inline int64_t divisorOf(mlir::Value value) {
  return numberOf(value, "anabranch.quotients");
}

/// The number of positions for which a frozen list has each of its integers, in
/// any order, the last one for as many or fewer; zero if the description does
/// not say so.
inline int64_t groupSizeOf(mlir::Value value) {
  return numberOf(value, "anabranch.groups");
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_STEADYINPUT_H
