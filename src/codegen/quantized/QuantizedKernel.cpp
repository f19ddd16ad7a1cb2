//===- QuantizedKernel.cpp - the choice of quantised products -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/quantized/QuantizedKernel.h"

#include "codegen/gemm/GemmEpilogue.h"
#include "codegen/gemm/GemmFootprint.h"
#include "codegen/quantized/LeftDigits.h"
#include "codegen/quantized/QuantizedAmxKernel.h"
#include "codegen/quantized/QuantizedMicroKernel.h"

using namespace mlir;

namespace anabranch {
namespace codegen {
namespace {

using ir::QuantizedWeight;

constexpr int64_t panelBytes = QuantizedWeight::panelColumns * 4;

/// Emits a tile: all rows times some panels of columns. The digits of the rows
/// are the same in all tiles.
class TileEmitter {
public:
  TileEmitter(QuantizedContext &context, Value scratch)
      : context(context), gemm(context.gemm), lanes(gemm.lanes),
        results(scratch),
        left(context,
             bytesBehind(lanes, scratch, lanes.index(resultBytes(context)))),
        epilogue(gemm) {}

  static int64_t resultBytes(const QuantizedContext &context) {
    return context.blocking.rows * panelBytes;
  }

  /// What all tiles of a launch read.
  void emitSetup() { left.make(); }

  void emit() {
    lanes.loop(gemm.tile.firstPanel, gemm.tile.endPanel, 1, [&](Value panel) {
      gemm.enterPanel(panel);
      lanes.loop(lanes.index(0), lanes.index(context.rows()),
                 context.blocking.rows,
                 [&](Value row) { multiplyRows(panel, row); });
    });
  }

private:
  QuantizedContext &context;
  GemmContext &gemm;
  LaneBuilder &lanes;
  Value results;
  LeftDigits left;
  GemmEpilogue epilogue;
  func::FuncOp first, others;

  /// Multiplies a block of rows. If too few rows are left, the last block
  /// begins earlier, and stores only its own rows.
  void multiplyRows(Value panel, Value row) {
    const QuantizedBlocking &blocking = context.blocking;
    Value start =
        lanes.minIndex(row, lanes.index(context.rows() - blocking.rows));
    int64_t vectors = QuantizedWeight::panelColumns / blocking.lanes;
    for (int64_t j = 0; j < vectors; j += blocking.vectors)
      multiply(panel, start, j);
    Value skipped =
        lanes.mulIndex(lanes.subIndex(row, start), lanes.index(panelBytes));
    Value end = lanes.minIndex(lanes.addIndex(row, lanes.index(blocking.rows)),
                               lanes.index(context.rows()));
    epilogue.emit(row, end, bytesBehind(lanes, results, skipped));
  }

  void multiply(Value panel, Value row, int64_t vector) {
    const QuantizedOperand &weight = context.weight;
    int64_t blocks = context.blocks(), digits = context.blocking.digits.count;
    auto ofRow = [&](Value from, int64_t bytes) {
      return bytesBehind(lanes, from, lanes.mulIndex(row, lanes.index(bytes)));
    };
    // `rows` rows of a panel's columns, from a vector of columns on.
    auto ofPanel = [&](unsigned argument, int64_t rows, int64_t elementBytes) {
      int64_t bytes = rows * QuantizedWeight::panelColumns * elementBytes;
      Value at = lanes.addIndex(
          lanes.mulIndex(panel, lanes.index(bytes)),
          lanes.index(vector * context.blocking.lanes * elementBytes));
      return bytesBehind(lanes, gemm.function.argument(argument).pointer, at);
    };
    auto parameters = [&](unsigned argument, Type element) {
      return ofPanel(argument, weight.layout.groups(weight.depths),
                     element.getIntOrFloatBitWidth() / 8);
    };
    SmallVector<Value> arguments = {
        ofRow(left.digits, context.rowBytes()),
        ofRow(left.scales, blocks * 4),
        ofRow(left.sums, blocks * 4),
        ofRow(left.compensation, digits * blocks * 4),
        ofPanel(weight.packed, weight.layout.steps(weight.depths), 4),
        parameters(weight.scale, weight.scaleElement),
        parameters(weight.offset.value_or(weight.scale), weight.offsetElement),
        bytesBehind(lanes, results,
                    lanes.index(vector * context.blocking.lanes * 4))};
    lanes.builder.create<func::CallOp>(lanes.loc, function(vector == 0),
                                       arguments);
  }

  func::FuncOp function(bool isFirst) {
    func::FuncOp &made = isFirst ? first : others;
    if (made)
      return made;
    func::FuncOp source = gemm.function.source;
    std::string name =
        (source.getName() + (isFirst ? "_block" : "_rest")).str();
    OpBuilder &b = lanes.builder;
    if (context.blocking.usesAmx)
      return made =
                 QuantizedAmxKernel(context).create(b, source, name, isFirst);
    return made =
               QuantizedMicroKernel(context).create(b, source, name, isFirst);
  }
};

/// The product and its weight. None, and why, if the kernel has no such
/// product.
struct Match {
  Contraction contraction;
  QuantizedOperand weight;

  static std::optional<Match> find(func::FuncOp kernel,
                                   const TargetInfo &target, std::string &why) {
    auto contraction = Contraction::find(kernel, why);
    if (!contraction)
      return std::nullopt;
    auto weight = QuantizedOperand::find(*contraction, why);
    if (!weight)
      return std::nullopt;
    if (!wantsQuantizedWeight(*contraction, target) ||
        !hasQuantizedRows(*contraction)) {
      why = "panels of floats suit so many rows better";
      return std::nullopt;
    }
    return Match{std::move(*contraction), *weight};
  }
};

std::optional<std::string> refusal(func::FuncOp kernel,
                                   const TargetInfo &target) {
  std::string why;
  if (!Match::find(kernel, target, why))
    return why;
  return std::nullopt;
}

LogicalResult emit(KernelShell &shell) {
  std::string why;
  std::optional<Match> match = Match::find(shell.source, shell.target, why);
  if (!match)
    return shell.source.emitError(why);
  const Contraction &contraction = match->contraction;
  QuantizedBlocking blocking =
      QuantizedBlocking::choose(contraction, match->weight, shell.target);
  return shell.emit(
      [&](KernelShell::TileBody &body) {
        GemmContext gemm(contraction, blocking.gemm, body.function);
        gemm.evaluator = &body.evaluator;
        gemm.enterTile(body.tile);
        QuantizedContext context{gemm, match->weight, blocking};
        TileEmitter(context, body.scratch).emit();
      },
      [&](KernelFunction &function) {
        GemmContext gemm(contraction, blocking.gemm, function);
        QuantizedContext context{gemm, match->weight, blocking};
        int64_t bytes = TileEmitter::resultBytes(context) +
                        LeftDigits::scratchBytes(context);
        return KernelShell::Plan{gemm.tileCount(), function.lanes.index(bytes)};
      },
      [&](KernelShell::FootprintBody &body) {
        GemmContext gemm(contraction, blocking.gemm, body.function);
        TileFootprint footprint(body.function);
        addGemmFootprint(gemm, footprint, body.tile);
        footprint.store(body.footprints);
      },
      [&](KernelShell::TileBody &body) {
        GemmContext gemm(contraction, blocking.gemm, body.function);
        gemm.evaluator = &body.evaluator;
        QuantizedContext context{gemm, match->weight, blocking};
        TileEmitter(context, body.scratch).emitSetup();
      });
}

} // namespace

const KernelChoice quantizedKernel{"quantized contraction", refusal, emit};

} // namespace codegen
} // namespace anabranch
