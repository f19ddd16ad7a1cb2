//===- KernelShell.cpp - the functions around a kernel's loops ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/KernelShell.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "native/narrow/ExpandBF16.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

/// The pointers of the tile function that belong to the arguments and results.
struct Pointers {
  SmallVector<unsigned> arguments, results;
  SmallVector<unsigned> slots; ///< position in `buffers` of each pointer

  explicit Pointers(func::FuncOp source) {
    unsigned slot = 0;
    for (Type type : source.getArgumentTypes()) {
      arguments.push_back(slots.size());
      if (isa<RankedTensorType>(type))
        slots.push_back(slot++);
    }
    for (unsigned i = 0; i < source.getNumResults(); ++i, ++slot) {
      if (auto argument = inPlaceArgument(source, i)) {
        results.push_back(arguments[*argument]);
        continue;
      }
      results.push_back(slots.size());
      slots.push_back(slot);
    }
  }
};

/// Whether the kernel sums products. PyTorch's convolutions and products
/// (oneDNN) flush small numbers of bf16 to zero too.
bool sumsProducts(func::FuncOp source) {
  WalkResult found = source.walk([](Operation *op) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    bool sums = generic && generic.getNumReductionLoops() != 0;
    bool multiplies =
        sums && !generic.getBody()->getOps<arith::MulFOp>().empty();
    // Depthwise convolutions are sums of taps in one body.
    return multiplies || isa<math::FmaOp, ir::AttentionOp>(op)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return found.wasInterrupted();
}

class ShellEmitter {
public:
  explicit ShellEmitter(KernelShell &shell)
      : shell(shell), source(shell.source), builder(source.getContext()),
        pointers(source) {
    pointer = LLVM::LLVMPointerType::get(builder.getContext());
    name = source.getName().str();
  }

  /// The exported function NAME + `suffix`, which calls the internal one. Both
  /// have the tile's number as last argument if `hasTile`.
  LogicalResult computation(StringRef suffix, StringRef internalSuffix,
                            bool hasTile,
                            llvm::function_ref<void(KernelShell::TileBody &)>);
  LogicalResult
  plan(llvm::function_ref<KernelShell::Grid(KernelFunction &)> body);
  LogicalResult
  footprint(llvm::function_ref<void(KernelShell::FootprintBody &)> body);

private:
  using TileWriter = llvm::function_ref<void(KernelShell::TileBody &)>;
  LogicalResult internal(const std::string &name, bool hasTile,
                         TileWriter body);
  void entry(const std::string &name, const std::string &internalName,
             bool hasTile);

  KernelShell &shell;
  func::FuncOp source;
  OpBuilder builder;
  Pointers pointers;
  Type pointer;
  std::string name;

  func::FuncOp create(const std::string &functionName, TypeRange arguments,
                      TypeRange results) {
    builder.setInsertionPoint(source);
    auto emitted = builder.create<func::FuncOp>(
        source.getLoc(), functionName,
        builder.getFunctionType(arguments, results));
    builder.setInsertionPointToStart(emitted.addEntryBlock());
    return emitted;
  }
};

} // namespace

LogicalResult ShellEmitter::computation(StringRef suffix,
                                        StringRef internalSuffix, bool hasTile,
                                        TileWriter body) {
  std::string internalName = (name + internalSuffix).str();
  if (failed(internal(internalName, hasTile, body)))
    return failure();
  entry((name + suffix).str(), internalName, hasTile);
  return success();
}

LogicalResult ShellEmitter::internal(const std::string &functionName,
                                     bool hasTile, TileWriter body) {
  size_t count = pointers.slots.size();
  SmallVector<Type> types(count + 2, pointer);
  if (hasTile)
    types.push_back(builder.getI64Type());
  func::FuncOp emitted = create(functionName, types, builder.getI32Type());
  emitted.setPrivate();
  if (sumsProducts(source))
    native::allowFlushingBF16(emitted);
  emitted->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  for (size_t i = 0; i < count + 2; ++i)
    emitted.setArgAttr(i, "llvm.noalias", builder.getUnitAttr());

  Location loc = source.getLoc();
  LaneBuilder lanes(builder, loc, shell.target.isa());
  bool checks = false;
  source.walk([&](ir::CheckOp) { checks = true; });
  Value zero = lanes.constant(builder.getI32IntegerAttr(0));
  Value status;
  if (checks) {
    status = builder.create<LLVM::AllocaOp>(loc, pointer, builder.getI32Type(),
                                            lanes.i64(1));
    builder.create<LLVM::StoreOp>(loc, zero, status);
  }
  KernelFunction function(source, shell.target, lanes,
                          emitted.getArgument(count));
  SmallVector<Value> arguments, results;
  for (auto [number, type] :
       llvm::zip(pointers.arguments, source.getArgumentTypes()))
    arguments.push_back(
        isa<RankedTensorType>(type) ? emitted.getArgument(number) : Value());
  for (unsigned number : pointers.results)
    results.push_back(emitted.getArgument(number));
  function.setPointers(arguments, results);
  Evaluator evaluator(function, status);
  Value number;
  if (hasTile)
    number = lanes.make<arith::IndexCastOp>(builder.getIndexType(),
                                            emitted.getArgument(count + 2));
  KernelShell::TileBody parts{function, evaluator,
                              emitted.getArgument(count + 1), number};
  body(parts);
  Value result =
      status ? builder.create<LLVM::LoadOp>(loc, builder.getI32Type(), status)
             : zero;
  builder.create<func::ReturnOp>(loc, result);
  return success(!function.failed());
}

void ShellEmitter::entry(const std::string &functionName,
                         const std::string &internalName, bool hasTile) {
  SmallVector<Type> types(3, pointer);
  if (hasTile)
    types.push_back(builder.getI64Type());
  func::FuncOp emitted = create(functionName, types, builder.getI32Type());
  Location loc = source.getLoc();
  SmallVector<Value> arguments;
  for (unsigned slot : pointers.slots) {
    Value address = builder.create<LLVM::GEPOp>(
        loc, pointer, pointer, emitted.getArgument(0),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(slot)});
    arguments.push_back(builder.create<LLVM::LoadOp>(loc, pointer, address));
  }
  llvm::append_range(arguments, emitted.getArguments().drop_front());
  auto call = builder.create<func::CallOp>(loc, internalName,
                                           builder.getI32Type(), arguments);
  builder.create<func::ReturnOp>(loc, call.getResults());
}

LogicalResult ShellEmitter::plan(
    llvm::function_ref<KernelShell::Grid(KernelFunction &)> body) {
  func::FuncOp emitted = create(name + "_plan", {pointer, pointer}, {});
  Location loc = source.getLoc();
  LaneBuilder lanes(builder, loc, shell.target.isa());
  KernelFunction function(source, shell.target, lanes, emitted.getArgument(0));
  KernelShell::Grid plan = body(function);
  Value scratch = builder.create<LLVM::GEPOp>(
      loc, pointer, builder.getI64Type(), emitted.getArgument(1),
      ArrayRef<LLVM::GEPArg>{1});
  builder.create<LLVM::StoreOp>(loc, lanes.toI64(plan.tiles),
                                emitted.getArgument(1));
  builder.create<LLVM::StoreOp>(loc, lanes.toI64(plan.scratchBytes), scratch);
  builder.create<func::ReturnOp>(loc);
  return success(!function.failed());
}

LogicalResult ShellEmitter::footprint(
    llvm::function_ref<void(KernelShell::FootprintBody &)> body) {
  func::FuncOp emitted =
      create(name + "_footprint", {pointer, builder.getI64Type(), pointer}, {});
  Location loc = source.getLoc();
  LaneBuilder lanes(builder, loc, shell.target.isa());
  KernelFunction function(source, shell.target, lanes, emitted.getArgument(0));
  Value zero = builder.create<LLVM::ZeroOp>(loc, pointer);
  function.setPointers(SmallVector<Value>(source.getNumArguments(), zero),
                       SmallVector<Value>(source.getNumResults(), zero));
  Value tile = lanes.make<arith::IndexCastOp>(builder.getIndexType(),
                                              emitted.getArgument(1));
  KernelShell::FootprintBody parts{function, tile, emitted.getArgument(2)};
  body(parts);
  builder.create<func::ReturnOp>(loc);
  return success(!function.failed());
}

LogicalResult
KernelShell::emit(llvm::function_ref<void(TileBody &)> tile,
                  llvm::function_ref<Grid(KernelFunction &)> plan,
                  llvm::function_ref<void(FootprintBody &)> footprint,
                  llvm::function_ref<void(TileBody &)> setup) {
  ShellEmitter emitter(*this);
  if (failed(emitter.computation("", "_tile", /*hasTile=*/true, tile)))
    return failure();
  if (setup && failed(emitter.computation("_setup", "_share",
                                          /*hasTile=*/false, setup)))
    return failure();
  if (failed(emitter.plan(plan)))
    return failure();
  // The footprint function costs a tenth of a kernel's compile time, and few
  // kernels need it.
  return source->hasAttr("anabranch.footprint") ? emitter.footprint(footprint)
                                                : success();
}

} // namespace kernels
} // namespace anabranch
