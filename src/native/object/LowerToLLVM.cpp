//===- LowerToLLVM.cpp - loops to the LLVM dialect ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/object/LowerToLLVM.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/LoweringOptions.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorTransforms.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "native/math/ExpandBytes.h"
#include "native/math/ExpandExtrema.h"
#include "native/math/ExpandMath.h"
#include "native/narrow/ExpandBF16.h"
#include "native/narrow/ExpandF16.h"
#include "native/narrow/ExpandF8.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

/// Rewrites vector operations that have no direct form in LLVM.
LogicalResult simplifyVectors(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  vector::populateVectorBroadcastLoweringPatterns(patterns);
  vector::populateVectorInterleaveLoweringPatterns(patterns);
  vector::populateVectorShapeCastLoweringPatterns(patterns);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  return applyPatternsAndFoldGreedily(module, std::move(patterns), config);
}

} // namespace

void registerCodegenInterfaces(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

LogicalResult lowerToLLVM(ModuleOp module, const TargetInfo &target) {
  MLIRContext *context = module.getContext();
  if (failed(verify(module)))
    return failure();
  expandByteDots(module, target);
  expandRounding(module);
  if (failed(expandMath(module, target)))
    return failure();
  expandF8(module, target);
  expandBF16(module, target);
  expandF16(module, target);
  expandExtrema(module, target);
  if (failed(simplifyVectors(module)))
    return failure();

  LowerToLLVMOptions options(context);
  LLVMTypeConverter converter(context, options);
  LLVMConversionTarget conversion(*context);
  conversion.addLegalOp<ModuleOp>();

  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  index::populateIndexToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  return applyFullConversion(module, conversion, std::move(patterns));
}

} // namespace native
} // namespace anabranch
