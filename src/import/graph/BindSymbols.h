//===- BindSymbols.h - a graph description for known sizes ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H
#define ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace anabranch {

/// Values of symbols of a graph description.
using Binding = llvm::StringMap<int64_t>;

/// Replaces symbols of `graph` by their numbers. Symbols without a value stay.
/// An error if the binding names an unknown symbol, if a value is outside of
/// its symbol's limits, or if arithmetic overflows.
llvm::Error bindSymbols(llvm::json::Object &graph, const Binding &binding);

} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H
