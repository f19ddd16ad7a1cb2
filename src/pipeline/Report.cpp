//===- Report.cpp - what a compilation did, as JSON -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "pipeline/Report.h"

#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "package/verify/RuntimeOperator.h"
#include "schedule/program/RegionCall.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
namespace json = llvm::json;

namespace anabranch {
namespace pipeline {

/// Rounds to microseconds: enough, and it keeps the text readable.
static double rounded(double milliseconds) {
  return static_cast<double>(static_cast<int64_t>(milliseconds * 1000)) / 1000;
}

void Report::addPhase(StringRef name, double milliseconds) {
  phases.push_back(
      json::Object{{"name", name.str()}, {"ms", rounded(milliseconds)}});
}

void Report::addFallbacks(ModuleOp module) {
  struct Entry {
    int64_t calls = 0;
    ir::AtenOp first;
  };
  llvm::MapVector<StringRef, Entry> entries;
  module.walk([&](ir::AtenOp call) {
    if (schedule::isRegionCall(call) ||
        package::isRuntimeOperator(call.getCallee()))
      return;
    Entry &entry = entries[call.getCallee()];
    if (entry.calls++ == 0)
      entry.first = call;
  });
  for (auto &[callee, entry] : entries) {
    auto reason = entry.first->getAttrOfType<StringAttr>("anabranch.refusal");
    std::string name =
        callee.contains("::") ? callee.str() : "aten." + callee.str();
    fallbacks.push_back(json::Object{
        {"op", name},
        {"calls", entry.calls},
        {"reason", reason ? reason.getValue().str() : "it has no lowering"},
        {"location", ir::describeLocation(entry.first.getLoc())}});
  }
}

void Report::addProgram(ModuleOp module) {
  for (auto program : module.getOps<ir::ProgramOp>()) {
    program.walk([&](ir::LaunchOp) { ++dispatches; });
    addSupers(program);
    if (auto bytes = dyn_cast_or_null<IntegerAttr>(program.getArenaBytesAttr()))
      arenaBytes =
          std::max(bytes.getInt(), arenaBytes.getAsInteger().value_or(0));
  }
}

/// Adds each super kernel, and the reasons why a scope is not one.
void Report::addSupers(ir::ProgramOp program) {
  program.walk([&](ir::SuperOp super) {
    Block &members = super.getBody().front();
    bool isSymbolic =
        llvm::any_of(super.getOps<ir::LaunchOp>(), [](auto member) {
          return !llvm::all_of(member.getSizes(), llvm::IsaPred<IntegerAttr>);
        });
    supers.push_back(json::Object{
        {"name", super.getName()},
        {"launches", static_cast<int64_t>(members.getOperations().size())},
        {"streams", static_cast<int64_t>(super.getStreams())},
        {"symbolic", isSymbolic},
        {"location", ir::describeLocation(super.getLoc())}});
  });
  auto list = program->getAttrOfType<ArrayAttr>("anabranch.breaks");
  if (!list)
    return;
  for (auto found : list.getAsRange<DictionaryAttr>()) {
    auto text = [&](StringRef key) {
      return found.getAs<StringAttr>(key).getValue();
    };
    breaks.push_back(json::Object{
        {"scope", text("scope")},
        {"reason", text("reason")},
        {"location", text("location")},
        {"bypassed", found.getAs<BoolAttr>("bypassed").getValue()}});
  }
}

void Report::addKernels(ModuleOp module,
                        ArrayRef<native::KernelObject> objects) {
  llvm::StringMap<int64_t> launches;
  module.walk([&](ir::LaunchOp launch) { ++launches[launch.getKernel()]; });
  for (const native::KernelObject &object : objects) {
    auto kernel = module.lookupSymbol<func::FuncOp>(object.name);
    if (!kernel || !kernel->hasAttr("anabranch.kernel"))
      continue;
    kernels.push_back(
        json::Object{{"name", object.name},
                     {"ms", rounded(object.totalMs())},
                     {"emit_ms", rounded(object.emitMs)},
                     {"lower_ms", rounded(object.lowerMs)},
                     {"optimize_ms", rounded(object.optimizeMs)},
                     {"object_ms", rounded(object.objectMs)},
                     {"launches", launches.lookup(object.name)},
                     {"found", object.found},
                     {"location", ir::describeLocation(kernel.getLoc())}});
  }
}

void Report::addBlockings(ArrayRef<kernels::TunableKernel> found) {
  for (const kernels::TunableKernel &kernel : found) {
    json::Array candidates;
    for (const kernels::TunableKernel::Candidate &candidate : kernel.candidates)
      candidates.push_back(
          json::Object{{"parameters", candidate.parameters},
                       {"cycles", static_cast<int64_t>(candidate.cycles)}});
    blockings.push_back(json::Object{{"kernel", kernel.name},
                                     {"key", kernel.key},
                                     {"candidates", std::move(candidates)}});
  }
}

std::string Report::json() const {
  json::Object all{{"phases", json::Array(phases)},
                   {"kernels", json::Array(kernels)},
                   {"fallbacks", json::Array(fallbacks)},
                   {"super_kernels", json::Array(supers)},
                   {"super_breaks", json::Array(breaks)},
                   {"dispatches", dispatches},
                   {"arena_bytes", arenaBytes},
                   {"explain", json::Array(explanations)}};
  if (!blockings.empty())
    all["blockings"] = json::Array(blockings);
  return llvm::formatv("{0}", json::Value(std::move(all)));
}

} // namespace pipeline
} // namespace anabranch
