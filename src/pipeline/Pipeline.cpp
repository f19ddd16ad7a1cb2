//===- Pipeline.cpp - from a graph description to a package ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "pipeline/Pipeline.h"

#include "import/graph/GraphReader.h"
#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "machine/processor/CpuFeatures.h"
#include "native/object/Link.h"
#include "native/object/LowerToLLVM.h"
#include "package/verify/Programs.h"
#include "schedule/serialize/MergePrograms.h"
#include "schedule/serialize/SerializeProgram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <chrono>
#include <future>

using namespace mlir;

namespace anabranch {
namespace pipeline {

using Clock = std::chrono::steady_clock;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  ir::registerAllDialects(registry);
  native::registerCodegenInterfaces(registry);
  return registry;
}

Compilation::Compilation(Options given, Progress progress,
                         native::ObjectStore objects)
    : options(std::move(given)), progress(std::move(progress)),
      objects(std::move(objects)),
      context(makeRegistry(), options.threads > 0
                                  ? MLIRContext::Threading::DISABLED
                                  : MLIRContext::Threading::ENABLED) {
  if (options.threads > 1) {
    workers = std::make_unique<llvm::DefaultThreadPool>(
        llvm::hardware_concurrency(options.threads));
    context.setThreadPool(*workers);
  }
  context.loadAllAvailableDialects();
  ir::setExplaining(&context, options.explain);
}

Compilation::~Compilation() {
  // If a file cannot be removed, it stays in the temporary folder.
  std::error_code ignored;
  if (!kernels.empty())
    ignored = llvm::sys::fs::remove(kernels);
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// "message (operator at file:line)", notes on lines of their own.
static std::string describe(Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  std::string place = ir::describeLocation(diagnostic.getLocation());
  if (!place.empty())
    text += "\n  at " + place;
  for (Diagnostic &note : diagnostic.getNotes())
    text += "\n  note: " + note.str();
  return text;
}

void Compilation::take(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark) {
    std::string place = ir::describeLocation(diagnostic.getLocation());
    summary.addExplanation((place.empty() ? "" : place + ": ") +
                           diagnostic.str());
  } else if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    messages += (messages.empty() ? "" : "\n") + describe(diagnostic);
  }
}

Outcome Compilation::fail(const Twine &what) {
  messages += (messages.empty() ? "" : "\n") + what.str();
  return Outcome::InternalError;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

Outcome Compilation::run(StringRef graphText,
                         ArrayRef<package::Constant> values,
                         const std::string &path) {
  graph = graphText;
  constants = values;
  output = path;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { take(diagnostic); });
  int64_t done = 0, total = allPhases().size();
  for (const PhaseInfo &info : allPhases()) {
    if (!progress(info.name, done++, total))
      return Outcome::Cancelled;
    Clock::time_point start = Clock::now();
    Outcome outcome = runPhase(info.phase);
    std::chrono::duration<double, std::milli> spent = Clock::now() - start;
    summary.addPhase(info.name, spent.count());
    if (outcome != Outcome::Ok) {
      if (messages.empty() && outcome != Outcome::Cancelled)
        fail("phase '" + info.name + "' failed without a diagnostic");
      return outcome;
    }
    dump(info.phase);
    if (options.stop == info.name)
      break;
  }
  return Outcome::Ok;
}

Outcome Compilation::runPhase(Phase phase) {
  switch (phase) {
  case Phase::Import:
    return import();
  case Phase::Codegen:
    return codegen();
  case Phase::Package:
    return package();
  default:
    return runPasses(phase);
  }
}

Outcome Compilation::import() {
  llvm::Expected<native::TargetInfo> found =
      native::TargetInfo::get(options.cpu);
  if (!found) {
    fail("option 'cpu': " + llvm::toString(found.takeError()));
    return Outcome::UserError;
  }
  target = std::move(*found);
  SmallVector<Binding> wanted(options.bindings.begin(), options.bindings.end());
  if (options.symbolic || wanted.empty())
    wanted.insert(wanted.begin(), Binding());
  for (const Binding &binding : wanted) {
    auto made = importWithRegions(graph, context, binding);
    if (made.empty())
      return Outcome::UserError;
    modulesOfProgram = made.size();
    for (OwningOpRef<ModuleOp> &module : made)
      modules.push_back(std::move(module));
  }
  return options.pad ? prove() : Outcome::Ok;
}

/// Proves on the symbolic graph that padding changes no result.
Outcome Compilation::prove() {
  OwningOpRef<ModuleOp> symbolic = importGraph(graph, context);
  if (!symbolic)
    return Outcome::UserError;
  PassManager passes(&context, ModuleOp::getOperationName());
  addProofPasses(passes);
  auto main = symbolic->lookupSymbol<func::FuncOp>("main");
  if (failed(passes.run(*symbolic)) || !main)
    return Outcome::UserError;
  FailureOr<SmallVector<PaddedDim>> found = provePadding(main);
  if (failed(found))
    return Outcome::UserError;
  padded.assign(found->begin(), found->end());
  return Outcome::Ok;
}

Outcome Compilation::runPasses(Phase phase) {
  int64_t done = 0, total = modules.size();
  for (OwningOpRef<ModuleOp> &module : modules) {
    if (total > 1 && !progress(infoOf(phase).name, done, total))
      return Outcome::Cancelled;
    if (Outcome outcome = runPasses(phase, *module); outcome != Outcome::Ok)
      return outcome;
    if (phase == Phase::Lower && done < int64_t(modulesOfProgram))
      summary.addFallbacks(*module);
    ++done;
  }
  if (phase == Phase::Memory) {
    schedule::mergePrograms(modules);
    modules.resize(1);
  }
  return Outcome::Ok;
}

Outcome Compilation::runPasses(Phase phase, ModuleOp module) {
  PassManager passes(&context, ModuleOp::getOperationName());
  passes.enableVerifier(options.debug);
  addPasses(passes, phase, target, options.streams, options.products);
  if (failed(passes.run(module)))
    // After Memory an error is a bug of this project: a graph may ask for what
    // cannot be done, but a program that was built cannot.
    return phase == Phase::Memory ? Outcome::InternalError : Outcome::UserError;
  // A description may name another type than its operator produces.
  if (phase == Phase::Lower && failed(verify(module)))
    return Outcome::UserError;
  if (phase == Phase::Memory)
    summary.addProgram(module);
  return Outcome::Ok;
}

void Compilation::dump(Phase phase) {
  if (options.dump.empty())
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (OwningOpRef<ModuleOp> &module : modules)
    module->print(stream, OpPrintingFlags().enableDebugInfo(false));
  if (text == lastDump)
    return;
  std::error_code error = llvm::sys::fs::create_directories(options.dump);
  std::string name = llvm::formatv(
      "{0:D2}-{1}.mlir", static_cast<int>(phase) + 1, infoOf(phase).name);
  SmallString<128> path(options.dump);
  llvm::sys::path::append(path, name);
  if (!error) {
    llvm::raw_fd_ostream file(path, error);
    if (!error)
      file << text;
  }
  if (error)
    summary.addExplanation("no dump at " + path.str().str() + ": " +
                           error.message());
  lastDump = std::move(text);
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

/// Kernels are compiled on other threads, so that this one, the caller's, can
/// report progress and poll for signals.
Outcome Compilation::codegen() {
  // Lowering kernels needs no code of the earlier phases, and LLVM needs no
  // code of the lowering. Both give their pages back.
  code.release();
  native::CompileOptions settings;
  settings.target = target;
  settings.lowered = [this] { code.release(); };
  // A caller that asks for dumps or reasons gets every kernel compiled, none
  // from the cache.
  if (objects.find && !options.debug && !options.explain)
    settings.objects = &objects;
  if (options.debug)
    settings.dumpDirectory = options.dump;
  ModuleOp module = *modules.front();
  if (options.listBlockings)
    summary.addBlockings(
        kernels::listTunableKernels(module, target, options.listBlockings));
  kernels::setBlockings(module, options.blockings);
  std::atomic<size_t> done{0}, total{0};
  std::atomic<bool> cancelled{false};
  auto count = [&](const native::KernelObject &, size_t now, size_t all) {
    done = now;
    total = all;
    return !cancelled;
  };
  auto work = std::async(std::launch::async, [&] {
    return kernels::compileKernels(module, settings, count);
  });
  while (work.wait_for(std::chrono::milliseconds(20)) !=
         std::future_status::ready)
    if (!progress(infoOf(Phase::Codegen).name, done, total))
      cancelled = true;
  FailureOr<std::vector<native::KernelObject>> objects = work.get();
  if (cancelled)
    return Outcome::Cancelled;
  if (failed(objects))
    return Outcome::InternalError;
  summary.addKernels(module, *objects);
  if (objects->empty() || output.empty())
    return Outcome::Ok;
  SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createUniqueFile(output + ".%%%%%%%%.so", path))
    return fail("cannot write beside '" + output + "': " + error.message());
  kernels = path.str().str();
  if (llvm::Error error =
          native::linkKernels(*objects, target.architecture(), kernels))
    return fail(llvm::toString(std::move(error)));
  return Outcome::Ok;
}

std::vector<std::string> featuresOf(const native::TargetInfo &target) {
  std::vector<std::string> features;
  SmallVector<StringRef> parts;
  StringRef(target.features).split(parts, ',');
  for (StringRef part : parts)
    // LLVM may use any feature. The package lists those that the runtime can
    // detect; the others add no instructions that a kernel has.
    if (part.consume_front("+") && machine::isFeature(part.str()))
      features.push_back(part.str());
  return features;
}

Outcome Compilation::package() {
  package::ProgramT program;
  if (failed(schedule::serializeProgram(*modules.front(), program)))
    return Outcome::InternalError;
  program.pads = options.pad;
  for (const PaddedDim &cut : padded)
    program.padded.emplace_back(cut.output, cut.dim, cut.input, cut.inputDim);
  package::Contents contents;
  contents.program = &program;
  contents.kernelsPath = kernels;
  contents.takeKernels = true;
  contents.config = options.config;
  contents.hashFiles = false;
  if (!kernels.empty()) {
    contents.targetCpu = target.architecture().name;
    contents.targetFeatures = featuresOf(target);
  }
  llvm::StringSet<> used;
  for (const package::ProgramT *each : package::programsOf(program))
    for (const auto &buffer : each->buffers)
      if (buffer->kind == package::BufferKind::Constant)
        used.insert(buffer->name);
  for (const package::Constant &constant : constants)
    if (used.erase(constant.name))
      contents.constants.push_back(constant);
  if (!used.empty()) {
    fail("the value of the frozen input '" + used.begin()->getKey() +
         "' is missing");
    return Outcome::UserError;
  }
  Status written = package::writePackage(output, contents);
  if (!written.ok())
    return fail(written.message());
  kernels.clear();
  return Outcome::Ok;
}

} // namespace pipeline
} // namespace anabranch
