//===- Layout.cpp - views between orders of dimensions --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Layout.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace anabranch {
namespace ir {

static constexpr StringLiteral channelsName = "anabranch.channels";
static constexpr StringLiteral storedName = "anabranch.stored";
static constexpr StringLiteral windowsName = "anabranch.windows";

static void mark(Operation *op, StringRef name) {
  op->setDiscardableAttr(name, UnitAttr::get(op->getContext()));
}

static bool isMarked(Operation *op, StringRef name) {
  return op && op->hasAttr(name);
}

void markChannels(Operation *view, Channels channels) {
  view->setDiscardableAttr(
      channelsName,
      StringAttr::get(view->getContext(),
                      channels == Channels::Last ? "last" : "second"));
}

std::optional<Channels> channelsOf(Operation *view) {
  auto mark =
      view ? view->getAttrOfType<StringAttr>(channelsName) : StringAttr();
  if (!mark)
    return std::nullopt;
  return mark.getValue() == "last" ? Channels::Last : Channels::Second;
}

void markStored(Operation *view) { mark(view, storedName); }
bool isMarkedStored(Operation *view) { return isMarked(view, storedName); }

void markWindows(Operation *view) { mark(view, windowsName); }
bool isMarkedWindows(Operation *view) { return isMarked(view, windowsName); }

} // namespace ir
} // namespace anabranch
