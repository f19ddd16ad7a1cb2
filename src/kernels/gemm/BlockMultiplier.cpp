//===- BlockMultiplier.cpp - calls of a product's micro-kernel ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/BlockMultiplier.h"

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/operands/ImagePatch.h"
#include "kernels/operands/RightPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Whether the block adds to existing sums.
Value BlockMultiplier::continues(const Block &block) {
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, block.first,
                                   lanes.index(0));
}

bool BlockMultiplier::rowsAreWhole() const {
  auto rows = gemm.contraction.knownSize(gemm.contraction.rows);
  return rows && !gemm.contraction.isGrouped &&
         *rows % gemm.layout.tiling.rows == 0;
}

/// The rows of the micro-kernels, the most first. The last rows of a tile take
/// the lowest block that holds them. If the number of rows is known, the shape
/// of blocks fits it.
SmallVector<int64_t> BlockMultiplier::heights() const {
  const Contraction &contraction = gemm.contraction;
  SmallVector<int64_t> heights = {gemm.layout.tiling.rows};
  bool isKnown = contraction.knownSize(contraction.rows).has_value();
  if ((isKnown && !contraction.isGrouped) || gemm.layout.left.patch)
    return heights;
  // Matrices have two rows, or one.
  bool isEven = gemm.layout.word.product.isMatrix;
  while (heights.back() > 1) {
    int64_t half = llvm::divideCeil(heights.back(), 2);
    heights.push_back(isEven && half > 1 ? llvm::alignTo(half, 2) : half);
  }
  return heights;
}

/// Vectors of the last panel that have columns; all vectors if that is not
/// known.
int64_t BlockMultiplier::lastVectors() const {
  const ProductLayout &layout = gemm.layout;
  auto columns = gemm.contraction.knownSize(gemm.contraction.column);
  int64_t rest = columns ? *columns % layout.tiling.columns() : 0;
  return rest ? (rest + layout.tiling.lanes - 1) / layout.tiling.lanes
              : layout.tiling.vectors;
}

int64_t wordsOfPartialSum(const GemmContext &gemm) {
  constexpr int64_t ofTerms = 64, ofDepth = 128, ofPatch = 256;
  const auto &patch = gemm.layout.left.patch;
  if (!gemm.isOneBlock() && !patch)
    return 0;
  const Contraction &contraction = gemm.contraction;
  bool mayBeTerms = !contraction.batch.empty() && contraction.element.isF32() &&
                    !contraction.narrow();
  int64_t words = !gemm.isOneBlock() ? ofPatch : mayBeTerms ? ofTerms : ofDepth;
  if (int64_t run = patch ? patch->run : gemm.layout.left.run)
    words = std::max<int64_t>(words / run, 1) * run;
  auto depths = contraction.knownSize(contraction.depth);
  bool isOnePart = depths && *depths <= words * gemm.layout.word.kPack;
  return isOnePart ? 0 : words;
}

MicroKernel BlockMultiplier::microKernel(int64_t rows, int64_t vectors,
                                         bool readsCodes) const {
  const ProductLayout &layout = gemm.layout;
  MicroKernel kernel{gemm.contraction.element,
                     layout.tiling.lanes,
                     rows,
                     vectors,
                     layout.tiling.columns(),
                     std::nullopt,
                     std::nullopt,
                     layout.right.element,
                     layout.word.product};
  if (layout.left.isInterleaved()) {
    kernel.interleavedRows = layout.tiling.rows;
    kernel.leftStep = layout.tiling.rows * kernel.product.parts();
  } else if (layout.left.run) {
    kernel.runs = {layout.left.run};
  } else if (LeftOperand::stepIsUnit(gemm)) {
    kernel.leftStep = 1;
    kernel.rowElements = layout.left.rowElements;
  }
  if (layout.left.patch) {
    kernel.rowElements = layout.left.patch->numberElements();
    kernel.runs = {
        layout.left.patch->run, [this](LaneBuilder &inner, Value run) {
          return ImagePatch::offsetOfRun(inner, *gemm.contraction.windows->axes,
                                         *gemm.layout.left.patch, run);
        }};
  }
  if (layout.right.form != RightAccess::Form::InPlace)
    kernel.rightStep = layout.right.panelWidth;
  if (layout.right.isInPanels())
    kernel.bytesAhead = bytesAhead;
  if (readsCodes)
    kernel.codes =
        QuantizedOperand::find(gemm.contraction)
            ->layout.floatType(gemm.contraction.element.getContext());
  else if (layout.right.form == RightAccess::Form::Codes)
    kernel.rightStep = layout.tiling.columns();
  kernel.wordsOfPartialSum = wordsOfPartialSum(gemm);
  return kernel;
}

void BlockMultiplier::call(int64_t rows, int64_t vectors,
                           const MicroKernel::Arguments &arguments) {
  bool readsCodes = gemm.layout.right.form == RightAccess::Form::Codes;
  if (!RightPanels::mayCopyCodes(gemm))
    return call(rows, vectors, readsCodes, arguments);
  auto callWith = [&](bool codes) {
    return [&, codes] {
      call(rows, vectors, codes, arguments);
      return SmallVector<Value>();
    };
  };
  lanes.ifElse(RightPanels::copiesCodes(gemm), TypeRange(), callWith(false),
               callWith(true));
}

void BlockMultiplier::call(int64_t rows, int64_t vectors, bool readsCodes,
                           const MicroKernel::Arguments &arguments) {
  MicroKernel kernel = microKernel(rows, vectors, readsCodes);
  func::FuncOp &function = functions[{rows, vectors, readsCodes}];
  func::FuncOp source = gemm.function.source;
  if (!function)
    function =
        kernel.create(lanes, source,
                      llvm::formatv("{0}_block_{1}x{2}{3}", source.getName(),
                                    rows, vectors, readsCodes ? "_codes" : "")
                          .str());
  kernel.call(lanes, function, arguments);
}

/// The arguments of the tallest micro-kernel, which has the most pointers.
MicroKernel::Arguments BlockMultiplier::argumentsOf(const Block &block) {
  // Rows after the last one repeat it. Their sums are not read.
  Value lastRow = lanes.subIndex(gemm.tile.endRow, lanes.index(1));
  MicroKernel::Arguments arguments;
  const auto &patch = gemm.layout.left.patch;
  const LeftAccess &access = gemm.layout.left;
  bool isOne = access.isInterleaved() || access.rowElements;
  int64_t pointers = isOne ? 1 : gemm.layout.tiling.rows;
  if (patch) {
    pointers = 0;
    arguments.left.push_back(left.at(block.row, lanes.index(0)).pointer);
    arguments.leftStep =
        lanes.toI64(lanes.divIndex(block.first, lanes.index(patch->run)));
  }
  for (int64_t i = 0; i < pointers; ++i) {
    Value row = lanes.addIndex(block.row, lanes.index(i));
    if (!rowsAreWhole())
      row = lanes.minIndex(row, lastRow);
    OperandReader::Address address = left.at(row, block.first);
    arguments.left.push_back(address.pointer);
    arguments.leftStep = address.step;
  }
  arguments.right = block.right.pointer;
  arguments.rightStep = block.right.step;
  arguments.sums = block.sums;
  arguments.words = gemm.words(block.count);
  arguments.continues = continues(block);
  if (compensation.isNeeded())
    arguments.compensation =
        compensation.pointerTo(lanes.subIndex(block.row, gemm.tile.firstRow));
  return arguments;
}

void BlockMultiplier::multiplyRows(int64_t rows,
                                   MicroKernel::Arguments arguments) {
  if (arguments.left.size() > 1)
    arguments.left.truncate(rows);
  int64_t vectors = gemm.layout.tiling.vectors;
  if (lastVectors() == vectors)
    return call(rows, vectors, arguments);
  gemm.wholeOrLast([&](bool whole) {
    call(rows, whole ? vectors : lastVectors(), arguments);
  });
}

void BlockMultiplier::multiply(const Block &block) {
  MicroKernel::Arguments arguments = argumentsOf(block);
  SmallVector<int64_t> rows = heights();
  Value rest = lanes.subIndex(gemm.tile.endRow, block.row);
  auto exceeds = [&](size_t i) {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ugt, rest,
                                     lanes.index(rows[i]));
  };
  auto multiplyFrom = [&](size_t i, auto &self) -> void {
    if (i + 1 == rows.size())
      return multiplyRows(rows[i], arguments);
    lanes.ifElse(
        exceeds(i + 1), TypeRange(),
        [&] {
          multiplyRows(rows[i], arguments);
          return SmallVector<Value>();
        },
        [&] {
          self(i + 1, self);
          return SmallVector<Value>();
        });
  };
  multiplyFrom(0, multiplyFrom);
}

} // namespace kernels
} // namespace anabranch
