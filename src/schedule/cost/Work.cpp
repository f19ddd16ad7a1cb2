//===- Work.cpp - what a kernel computes and moves ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost/Work.h"

#include "analysis/OperationCost.h"
#include "ir/Anabranch.h"
#include "ir/Sizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// A sum of products of launch sizes.
struct Sum {
  struct Product {
    double factor;
    std::vector<int> sizes; // sorted
  };
  std::vector<Product> products;

  static Sum number(double value) {
    return value == 0 ? Sum{} : Sum{{{value, {}}}};
  }

  void add(const Sum &other, double factor = 1) {
    for (const Product &product : other.products) {
      auto same = llvm::find_if(products, [&](const Product &mine) {
        return mine.sizes == product.sizes;
      });
      if (same != products.end())
        same->factor += factor * product.factor;
      else
        products.push_back({factor * product.factor, product.sizes});
    }
  }

  Sum times(const Sum &other) const {
    Sum result;
    for (const Product &a : products)
      for (const Product &b : other.products) {
        Product both{a.factor * b.factor, a.sizes};
        both.sizes.insert(both.sizes.end(), b.sizes.begin(), b.sizes.end());
        llvm::sort(both.sizes);
        result.add(Sum{{both}});
      }
    return result;
  }
};

double itemBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * itemBytes(complex.getElementType());
  if (type.isIndex())
    return 8;
  unsigned whole = (type.getIntOrFloatBitWidth() + 7) / 8; // a bool is a byte
  return whole;
}

/// Counts the work of one kernel. `known` becomes false at the first size that
/// is not a sum of products.
class WorkCounter {
public:
  explicit WorkCounter(func::FuncOp kernel)
      : kernel(kernel), builder(kernel.getContext()) {
    builder.setInsertionPoint(kernel.getBody().front().getTerminator());
    numberSizes();
  }

  void count() {
    // Looking a size up adds arithmetic, which is not the kernel's work.
    SmallVector<Operation *> ops;
    for (Operation &op : kernel.getBody().front())
      ops.push_back(&op);
    for (Operation *op : ops)
      flops.add(flopsOf(op));
    for (BlockArgument argument : kernel.getArguments())
      if (isa<RankedTensorType>(argument.getType()))
        bytes.add(bytesRead(argument));
    auto yield = cast<func::ReturnOp>(kernel.getBody().front().getTerminator());
    for (auto [i, result] : llvm::enumerate(yield.getOperands()))
      bytes.add(bytesWritten(
          result, kernel.getResultAttr(i, "anabranch.in_place") != nullptr));
  }

  Sum flops, bytes;
  bool known = true;

private:
  //===--- sizes ----------------------------------------------------------===//

  void numberSizes() {
    int next = 0;
    auto skipDynamic = [&](Type type) {
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        next += static_cast<int>(tensor.getNumDynamicDims());
    };
    for (BlockArgument argument : kernel.getArguments()) {
      firstSize[argument] = next;
      skipDynamic(argument.getType());
    }
    for (Type type : kernel.getResultTypes())
      skipDynamic(type);
    for (BlockArgument argument : kernel.getArguments())
      if (argument.getType().isIndex())
        firstSize[argument] = next++;
  }

  Sum unknown() {
    known = false;
    return {};
  }

  Sum sum(OpFoldResult size) {
    if (std::optional<int64_t> number = getConstantIntValue(size))
      return Sum::number(static_cast<double>(*number));
    auto value = dyn_cast<Value>(size);
    if (auto argument = dyn_cast<BlockArgument>(value))
      return firstSize.count(argument) ? Sum{{{1.0, {firstSize[argument]}}}}
                                       : unknown();
    Operation *op = value.getDefiningOp();
    if (auto dim = dyn_cast<tensor::DimOp>(op))
      return sum(dim);
    if (auto cast = dyn_cast<arith::IndexCastOp>(op))
      return sum(cast.getIn());
    if (op->getNumOperands() != 2)
      return unknown();
    Sum left = sum(op->getOperand(0)), right = sum(op->getOperand(1));
    if (isa<arith::MulIOp>(op))
      return left.times(right);
    if (isa<arith::AddIOp, arith::SubIOp>(op)) {
      left.add(right, isa<arith::AddIOp>(op) ? 1 : -1);
      return left;
    }
    bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp,
                       arith::CeilDivSIOp>(op);
    if (!divides || right.products.size() != 1 ||
        !right.products[0].sizes.empty())
      return unknown();
    return left.times(Sum::number(1 / right.products[0].factor));
  }

  Sum sum(tensor::DimOp dim) {
    auto argument = dyn_cast<BlockArgument>(dim.getSource());
    std::optional<int64_t> index = dim.getConstantIndex();
    if (!argument || !index || !firstSize.count(argument))
      return unknown();
    auto type = cast<RankedTensorType>(argument.getType());
    return Sum{{{1.0,
                 {firstSize[argument] +
                  static_cast<int>(type.getDynamicDimIndex(*index))}}}};
  }

  Sum sizeOf(Value tensor, int64_t dim) {
    return sum(ir::sizeOf(builder, kernel.getLoc(), tensor, dim));
  }

  Sum elements(Value tensor) {
    Sum product = Sum::number(1);
    auto type = cast<RankedTensorType>(tensor.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      product = product.times(sizeOf(tensor, dim));
    return product;
  }

  Sum bytesOf(Value tensor) {
    Type item = cast<RankedTensorType>(tensor.getType()).getElementType();
    return elements(tensor).times(Sum::number(itemBytes(item)));
  }

  //===--- operations -----------------------------------------------------===//

  Sum points(linalg::LinalgOp op) {
    Sum product = Sum::number(1);
    for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
      Value operand;
      unsigned dim = 0;
      if (failed(op.mapIterationSpaceDimToOperandDim(loop, operand, dim)))
        return unknown();
      product = product.times(sizeOf(operand, dim));
    }
    return product;
  }

  Sum flopsOf(Operation *op) {
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      double each = analysis::flopsOf(op->getRegion(0));
      return each ? points(linalgOp).times(Sum::number(each)) : Sum{};
    }
    if (auto scan = dyn_cast<ir::ScanOp>(op))
      return elements(scan.getInput())
          .times(Sum::number(analysis::flopsOf(scan.getBody())));
    if (auto scatter = dyn_cast<ir::ScatterOp>(op))
      return elements(scatter.getUpdates())
          .times(Sum::number(analysis::flopsOf(scatter.getBody())));
    if (auto attention = dyn_cast<ir::AttentionOp>(op))
      return flopsOf(attention);
    if (auto fft = dyn_cast<ir::FftOp>(op))
      return flopsOf(fft);
    return {};
  }

  /// Both products, and five operations for every score: scale, maximum,
  /// difference, exponential and sum. Scores that a causal mask hides count
  /// too.
  Sum flopsOf(ir::AttentionOp op) {
    int64_t rank = cast<RankedTensorType>(op.getQuery().getType()).getRank();
    Sum rows = Sum::number(1);
    for (int64_t dim = 0; dim + 1 < rank; ++dim)
      rows = rows.times(sizeOf(op.getQuery(), dim));
    Sum each = Sum::number(5);
    each.add(sizeOf(op.getQuery(), rank - 1), 2);
    int64_t last =
        cast<RankedTensorType>(op.getValue().getType()).getRank() - 1;
    each.add(sizeOf(op.getValue(), last), 2);
    return rows.times(sizeOf(op.getValue(), last - 1)).times(each);
  }

  /// The usual count, five operations for each element and each halving of the
  /// length. A symbolic length counts as the typical one.
  Sum flopsOf(ir::FftOp op) {
    bool toReal = op.getToReal();
    Value longest = toReal ? op.getResult() : op.getReal();
    int64_t length =
        cast<RankedTensorType>(longest.getType()).getDimSize(op.getDimension());
    if (ShapedType::isDynamic(length))
      length = ir::typicalSize;
    double each = 5 * std::log2(double(std::max<int64_t>(length, 2)));
    bool isHalf = toReal || !op.getImaginary();
    return elements(longest).times(Sum::number(isHalf ? each / 2 : each));
  }

  //===--- bytes ----------------------------------------------------------===//

  /// Points of the operation around `inner` that has a body, one for none.
  Sum pointsAround(Operation *inner) {
    if (auto generic = inner->getParentOfType<linalg::GenericOp>())
      return points(cast<linalg::LinalgOp>(generic.getOperation()));
    if (auto scatter = inner->getParentOfType<ir::ScatterOp>())
      return elements(scatter.getUpdates());
    return Sum::number(1);
  }

  Sum bytesRead(Value tensor) {
    Sum parts;
    for (OpOperand &use : tensor.getUses()) {
      Operation *op = use.getOwner();
      if (isa<tensor::DimOp>(op) || isWrittenOver(use))
        continue;
      if (isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp,
              tensor::CollapseShapeOp, tensor::CastOp>(op))
        parts.add(bytesRead(op->getResult(0)));
      else if (auto extract = dyn_cast<tensor::ExtractOp>(op))
        parts.add(
            pointsAround(op).times(Sum::number(itemBytes(extract.getType()))));
      else
        return bytesOf(tensor);
    }
    return parts;
  }

  /// Whether the use replaces the tensor, or a part of it. Such a tensor counts
  /// as written, not as read.
  bool isWrittenOver(OpOperand &use) {
    Operation *op = use.getOwner();
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
      return linalgOp.isDpsInit(&use) &&
             !linalgOp.payloadUsesValueFromOperand(&use);
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      return use.get() == insert.getDest() && isInPlace(insert.getResult());
    if (auto scatter = dyn_cast<ir::ScatterOp>(op))
      return use.get() == scatter.getInit() && isInPlace(scatter.getResult());
    return false;
  }

  bool isInPlace(Value result) {
    return llvm::any_of(result.getUses(), [&](OpOperand &use) {
      return isa<func::ReturnOp>(use.getOwner()) &&
             kernel.getResultAttr(use.getOperandNumber(), "anabranch.in_place");
    });
  }

  Sum bytesWritten(Value result, bool inPlace) {
    Operation *op = result.getDefiningOp();
    if (inPlace && op) {
      if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
        return bytesOf(insert.getSource());
      if (auto scatter = dyn_cast<ir::ScatterOp>(op))
        return bytesOf(scatter.getUpdates());
    }
    return bytesOf(result);
  }

  func::FuncOp kernel;
  OpBuilder builder;
  DenseMap<Value, int> firstSize;
};

std::vector<std::unique_ptr<package::TermT>> toTerms(const Sum &sum) {
  std::vector<std::unique_ptr<package::TermT>> terms;
  for (const Sum::Product &product : sum.products) {
    auto term = std::make_unique<package::TermT>();
    term->factor = product.factor;
    term->sizes = product.sizes;
    terms.push_back(std::move(term));
  }
  return terms;
}

} // namespace

std::unique_ptr<package::WorkT> workOf(func::FuncOp kernel) {
  func::FuncOp copy = kernel.clone();
  WorkCounter counter(copy);
  counter.count();
  std::unique_ptr<package::WorkT> work;
  if (counter.known) {
    work = std::make_unique<package::WorkT>();
    work->flops = toTerms(counter.flops);
    work->bytes = toTerms(counter.bytes);
  }
  copy.erase();
  return work;
}

} // namespace schedule
} // namespace anabranch
