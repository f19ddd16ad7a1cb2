//===- Compile.cpp - loops to machine code, in parallel -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/Compile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "native/object/LowerToLLVM.h"
#include "native/object/ObjectCode.h"
#include "native/object/ObjectKey.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <atomic>
#include <chrono>
#include <mutex>

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

/// Milliseconds since the last call.
class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<double, std::milli> passed = now - last;
    last = now;
    return passed.count();
  }

private:
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

/// One object file that is being made.
struct Job {
  std::string name;
  OwningOpRef<ModuleOp> module;
  Location location;
  KernelObject object;
  std::string key; ///< in the object store; empty: not stored
};

/// The state that all jobs share.
struct Shared {
  Shared(const CompileOptions &options, EmitFn emit, const ProgressFn &progress,
         size_t total)
      : options(options), emit(emit), progress(progress), total(total) {}

  const CompileOptions &options;
  const EmitFn emit;
  const ProgressFn &progress;
  const size_t total;
  size_t done = 0;
  std::atomic<bool> cancelled = false;
  std::mutex mutex;

  /// Reports a finished kernel to the caller.
  void report(const KernelObject &object) {
    std::lock_guard<std::mutex> lock(mutex);
    ++done;
    if (progress && !progress(object, done, total))
      cancelled = true;
  }
};

/// Appends LLVM's own errors to the job's message instead of printing them.
void collectDiagnostic(const llvm::DiagnosticInfo *info, void *message) {
  if (info->getSeverity() != llvm::DS_Error)
    return;
  llvm::raw_string_ostream stream(*static_cast<std::string *>(message));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
}

/// Writes `text` to a file NAME.extension of the dump directory, if there is
/// one. If that fails, it warns.
void dump(const Shared &shared, const Job &job, llvm::StringRef extension,
          llvm::function_ref<void(llvm::raw_ostream &)> print) {
  if (shared.options.dumpDirectory.empty())
    return;
  llvm::SmallString<128> path(shared.options.dumpDirectory);
  llvm::sys::path::append(path, job.name + extension);
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    emitWarning(job.location)
        << "can't write " << path << ": " << error.message();
  else
    print(stream);
}

/// Lowers the kernel function to the LLVM dialect.
LogicalResult lowerJob(Job &job, Shared &shared) {
  Stopwatch watch;
  SmallVector<func::FuncOp> kernels;
  for (auto function : job.module->getOps<func::FuncOp>())
    if (function->hasAttr("anabranch.kernel"))
      kernels.push_back(function);
  for (func::FuncOp kernel : kernels)
    if (failed(shared.emit(kernel, shared.options.target)))
      return failure();
  job.object.emitMs = watch.lap();
  dump(shared, job, ".loops.mlir",
       [&](llvm::raw_ostream &stream) { job.module->print(stream); });
  watch.lap();
  LogicalResult lowered = lowerToLLVM(*job.module, shared.options.target);
  job.object.lowerMs = watch.lap();
  return lowered;
}

/// Translates the LLVM dialect to object code. `context` must outlive
/// everything made in it.
llvm::Error translateJob(Job &job, Shared &shared, llvm::LLVMContext &context) {
  Stopwatch watch;
  auto machine = shared.options.target.createTargetMachine();
  if (!machine)
    return machine.takeError();
  std::string message;
  context.setDiagnosticHandlerCallBack(collectDiagnostic, &message,
                                       /*RespectFilters=*/true);
  // If LLVM gives up inside, this module is leaked: it may be in a state that
  // cannot be destroyed.
  llvm::Module *module =
      translateModuleToLLVMIR(*job.module, context, job.name).release();
  if (!module)
    return llvm::createStringError("it has no form in LLVM IR");
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple().str());
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(*module, &stream))
    return llvm::createStringError("LLVM's verifier: %s", message.c_str());
  job.object.lowerMs += watch.lap();

  optimizeModule(*module, **machine);
  job.object.optimizeMs = watch.lap();
  dump(shared, job, ".ll",
       [&](llvm::raw_ostream &stream) { module->print(stream, nullptr); });
  if (!shared.options.dumpDirectory.empty()) {
    auto copy = llvm::CloneModule(*module);
    llvm::SmallString<0> text;
    if (auto error = emitObject(*copy, **machine, text, /*assembly=*/true))
      return error;
    dump(shared, job, ".s", [&](llvm::raw_ostream &os) { os << text; });
  }
  watch.lap();
  if (auto error = emitObject(*module, **machine, job.object.bytes))
    return error;
  job.object.objectMs = watch.lap();
  delete module;
  if (!message.empty())
    return llvm::createStringError("LLVM: %s", message.c_str());
  return llvm::Error::success();
}

/// Whether an earlier compilation made the kernel, for any graph.
bool findObject(Job &job, Shared &shared) {
  const ObjectStore *store = shared.options.objects;
  if (!store)
    return false;
  job.key = nameByContents(*job.module, store->identity, shared.options.target,
                           job.object);
  job.object.found = !job.key.empty() && store->find(job.key, job.object.bytes);
  return job.object.found;
}

LogicalResult lower(Job &job, Shared &shared) {
  if (findObject(job, shared) || succeeded(lowerJob(job, shared)))
    return success();
  return emitError(job.location)
         << "no machine code for kernel '" << job.name << "'";
}

LogicalResult translate(Job &job, Shared &shared) {
  if (shared.cancelled)
    return failure();
  if (job.object.found) {
    shared.report(job.object);
    return success();
  }
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::Error error =
      guardLLVM([&] { return translateJob(job, shared, *context); });
  job.module = nullptr;
  if (error) {
    // After a fatal error LLVM's objects are half done, and destroying them is
    // not safe.
    [[maybe_unused]] llvm::LLVMContext *left = context.release();
    return emitError(job.location) << "no machine code for kernel '" << job.name
                                   << "': " << llvm::toString(std::move(error));
  }
  if (!job.key.empty())
    shared.options.objects->keep(job.key, job.object.bytes);
  shared.report(job.object);
  return success();
}

/// Makes one module for each kernel. NAME_setup, NAME_plan and NAME_footprint
/// go with NAME; every module gets the declarations.
SmallVector<Job> splitJobs(ModuleOp module) {
  SmallVector<Operation *> declarations;
  for (auto function : module.getOps<FunctionOpInterface>())
    if (function.isExternal())
      declarations.push_back(function);
  llvm::MapVector<StringRef, SmallVector<func::FuncOp>> groups;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    StringRef name = function.getSymName();
    for (StringRef suffix : {"_setup", "_plan", "_footprint"})
      if (name.ends_with(suffix) &&
          module.lookupSymbol(name.drop_back(suffix.size())))
        name = name.drop_back(suffix.size());
    groups[name].push_back(function);
  }
  SmallVector<Job> jobs;
  for (auto &[name, functions] : groups) {
    Location location = functions.front().getLoc();
    Job job{name.str(), ModuleOp::create(location), location, {}, {}};
    job.object.name = job.name;
    for (Operation *declaration : declarations)
      job.module->push_back(declaration->clone());
    for (func::FuncOp function : functions)
      job.module->push_back(function.clone());
    jobs.push_back(std::move(job));
  }
  return jobs;
}

/// Loads dialects and interfaces, which is not allowed once threads work in the
/// context.
void prepareContext(MLIRContext &context) {
  DialectRegistry registry;
  registerCodegenInterfaces(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                      func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect>();
}

} // namespace

FailureOr<std::vector<KernelObject>> compile(ModuleOp module,
                                             const CompileOptions &options,
                                             EmitFn emit,
                                             const ProgressFn &progress) {
  MLIRContext *context = module.getContext();
  prepareContext(*context);
  SmallVector<Job> jobs = splitJobs(module);
  Shared shared(options, emit, progress, jobs.size());
  // All kernels are lowered before the first one is translated: MLIR's code
  // then need not stay in memory beside LLVM's.
  LogicalResult result = failableParallelForEach(
      context, jobs, [&](Job &job) { return lower(job, shared); });
  if (succeeded(result) && options.lowered)
    options.lowered();
  if (succeeded(result))
    result = failableParallelForEach(
        context, jobs, [&](Job &job) { return translate(job, shared); });
  if (shared.cancelled)
    return emitError(module.getLoc()) << "the compilation was cancelled";
  if (failed(result))
    return failure();
  std::vector<KernelObject> objects;
  for (Job &job : jobs)
    objects.push_back(std::move(job.object));
  return objects;
}

} // namespace native
} // namespace anabranch
