//===- BindSymbols.h - a graph description for known sizes ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H
#define ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace anabranch {

/// Values of symbols of a graph description.
using Binding = llvm::StringMap<int64_t>;

/// Puts numbers where `graph` has these symbols. Symbols without a value stay.
/// An error when the binding names a symbol that is not there, when a value is
/// outside of its symbol's limits, or when arithmetic overflows.
llvm::Error bindSymbols(llvm::json::Object &graph, const Binding &binding);

} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_BINDSYMBOLS_H
