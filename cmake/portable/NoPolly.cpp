//===- NoPolly.cpp - the plugin that static LLVM asks for, empty ----------===//
// SPDX-License-Identifier: Apache-2.0
//
// Debian's LLVM archives name Polly as a built-in extension and ship it apart.
// lld refers to the list of extensions through link-time optimisation, which we
// never use.

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "NoPolly", LLVM_VERSION_STRING,
          [](llvm::PassBuilder &) {}};
}
