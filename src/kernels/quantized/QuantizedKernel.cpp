//===- QuantizedKernel.cpp - the plans of quantised products --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/QuantizedKernel.h"

#include "kernels/contraction/ProductCost.h"
#include "kernels/gemm/GemmEpilogue.h"
#include "kernels/gemm/GemmFootprint.h"
#include "kernels/quantized/LeftDigits.h"
#include "kernels/quantized/QuantizedMatrixKernel.h"
#include "kernels/quantized/QuantizedTileBlocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

using ir::QuantizedWeight;

constexpr int64_t panelBytes = QuantizedWeight::panelColumns * 4;

/// Emits a tile: some rows times some panels of columns.
class TileEmitter {
public:
  TileEmitter(QuantizedContext &context, Value scratch)
      : context(context), gemm(context.gemm), lanes(gemm.lanes),
        results(scratch),
        left(context,
             addBytes(lanes, scratch, lanes.index(resultBytes(context)))),
        epilogue(gemm) {}

  static int64_t resultBytes(const QuantizedContext &context) {
    return context.blocking.rows * panelBytes;
  }

  /// Makes the digits that all tiles of a launch share.
  void emitSetup() { left.make(lanes.index(0), lanes.index(context.rows())); }

  void emit() {
    if (context.blocking.hasOwnDigits)
      left.make(gemm.tile.firstRow, gemm.tile.endRow);
    lanes.loop(gemm.tile.firstPanel, gemm.tile.endPanel, 1, [&](Value panel) {
      gemm.enterPanel(panel);
      lanes.loop(gemm.tile.firstRow, gemm.tile.endRow, context.blocking.rows,
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
  func::FuncOp fetching, plain;

  /// Multiplies a block of rows. If too few rows are left, the last block
  /// begins earlier, and stores only its own rows. The scratch memory has rows
  /// for a block also where the tile has fewer.
  void multiplyRows(Value panel, Value row) {
    const QuantizedBlocking &blocking = context.blocking;
    Value first = gemm.tile.firstRow, rows = lanes.index(blocking.rows);
    Value last =
        lanes.subIndex(lanes.make<arith::MaxUIOp>(gemm.tile.endRow,
                                                  lanes.addIndex(first, rows)),
                       rows);
    Value start = lanes.minIndex(row, last);
    int64_t vectors = QuantizedWeight::panelColumns / blocking.lanes;
    for (int64_t j = 0; j < vectors; j += blocking.vectors)
      multiply(panel, lanes.subIndex(start, first), j);
    Value skipped =
        lanes.mulIndex(lanes.subIndex(row, start), lanes.index(panelBytes));
    Value end = lanes.minIndex(lanes.addIndex(row, rows), gemm.tile.endRow);
    epilogue.emit(row, end, addBytes(lanes, results, skipped));
  }

  /// Multiplies a block of rows, counted in the tile, by a block of columns.
  void multiply(Value panel, Value row, int64_t vector) {
    const QuantizedOperand &weight = context.weight;
    int64_t blocks = context.blocks(), digits = context.blocking.digits.count;
    auto ofRow = [&](Value from, int64_t bytes) {
      return addBytes(lanes, from, lanes.mulIndex(row, lanes.index(bytes)));
    };
    // `rows` rows of a panel's columns, from a vector of columns on.
    auto ofPanel = [&](unsigned argument, int64_t rows, int64_t elementBytes) {
      int64_t bytes = rows * QuantizedWeight::panelColumns * elementBytes;
      Value at = lanes.addIndex(
          lanes.mulIndex(panel, lanes.index(bytes)),
          lanes.index(vector * context.blocking.lanes * elementBytes));
      return addBytes(lanes, gemm.function.argument(argument).pointer, at);
    };
    // The function reads no parameters that there are not.
    auto parameters = [&](std::optional<unsigned> argument, Type element) {
      return ofPanel(argument.value_or(weight.packed),
                     weight.layout.groups(weight.depths),
                     element.getIntOrFloatBitWidth() / 8);
    };
    SmallVector<Value> arguments = {
        ofRow(left.digits, context.rowBytes()),
        ofRow(left.scales, blocks * 4),
        ofRow(left.sums, blocks * 4),
        ofRow(left.compensation, digits * blocks * 4),
        ofPanel(weight.packed, weight.layout.steps(weight.depths), 4),
        parameters(weight.scale, weight.scaleElement),
        parameters(weight.offset, weight.offsetElement),
        addBytes(lanes, results,
                 lanes.index(vector * context.blocking.lanes * 4))};
    // Many rows use the panel, so that its first read from memory hardly
    // counts.
    bool fetches = vector == 0 && !context.blocking.hasOwnDigits;
    lanes.builder.create<func::CallOp>(lanes.loc, function(fetches), arguments);
  }

  func::FuncOp function(bool fetches) {
    func::FuncOp &made = fetches ? fetching : plain;
    if (made)
      return made;
    func::FuncOp source = gemm.function.source;
    std::string name =
        (source.getName() + (fetches ? "_block" : "_rest")).str();
    OpBuilder &b = lanes.builder;
    if (context.blocking.usesTiles)
      return made =
                 QuantizedTileBlocks(context).create(b, source, name, fetches);
    if (context.blocking.matrices)
      return made = QuantizedMatrixKernel(context).create(b, source, name,
                                                          fetches);
    return made =
               QuantizedMicroKernel(context).create(b, source, name, fetches);
  }
};

/// The product and its weight. None, and why, if the kernel has no such
/// product.
struct Match {
  Contraction contraction;
  QuantizedOperand weight;

  static std::optional<Match> find(func::FuncOp kernel,
                                   const native::TargetInfo &target,
                                   std::string &why) {
    auto contraction = Contraction::find(kernel, why);
    if (!contraction)
      return std::nullopt;
    auto weight = QuantizedOperand::find(*contraction, why);
    if (!weight)
      return std::nullopt;
    if (weight->layout.code != QuantizedWeight::Code::Integer) {
      why = "the weight holds no integers";
      return std::nullopt;
    }
    if (!wantsQuantizedWeight(*contraction, target)) {
      why = "its sums are no f32, or there is a batch of them";
      return std::nullopt;
    }
    if (!hasQuantizedRows(*contraction, *weight, target)) {
      why = "floats cost less than digits of more than " +
            std::to_string(mostQuantizedRows) + " rows";
      return std::nullopt;
    }
    return Match{std::move(*contraction), *weight};
  }
};

class QuantizedPlan : public Plan {
public:
  QuantizedPlan(Match found, const QuantizedBlocking &blocking,
                const native::TargetInfo &target)
      : match(std::move(found)), blocking(blocking),
        cycles(blocking.cycles(match.contraction, match.weight, target)) {}

  double cost() const override { return cycles; }
  std::vector<PlanCandidate> candidates() const override {
    if (!hasKnownSizes(match.contraction))
      return {};
    return {{"", cycles}};
  }

  KernelShell::Grid grid(KernelFunction &function) const override {
    GemmContext gemm(match.contraction, blocking.layout, function);
    QuantizedContext context{gemm, match.weight, blocking};
    int64_t bytes =
        TileEmitter::resultBytes(context) + LeftDigits::scratchBytes(context);
    return {gemm.tileCount(), function.lanes.index(bytes)};
  }

  void emitTile(KernelShell::TileBody &body) const override {
    GemmContext gemm(match.contraction, blocking.layout, body.function);
    gemm.evaluator = &body.evaluator;
    gemm.enterTile(body.tile);
    QuantizedContext context{gemm, match.weight, blocking};
    TileEmitter(context, body.scratch).emit();
  }

  bool hasSetup() const override { return !blocking.hasOwnDigits; }
  void emitSetup(KernelShell::TileBody &body) const override {
    GemmContext gemm(match.contraction, blocking.layout, body.function);
    gemm.evaluator = &body.evaluator;
    QuantizedContext context{gemm, match.weight, blocking};
    TileEmitter(context, body.scratch).emitSetup();
  }

  void emitFootprint(KernelShell::FootprintBody &body) const override {
    GemmContext gemm(match.contraction, blocking.layout, body.function);
    TileFootprint footprint(body.function);
    addGemmFootprint(gemm, footprint, body.tile);
    footprint.store(body.footprints);
  }

private:
  Match match;
  QuantizedBlocking blocking;
  double cycles;
};

template <QuantizedBlocking::Unit unit>
Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  std::optional<Match> match = Match::find(kernel, target, why);
  if (!match)
    return Proposal::refuse(why);
  auto blocking = QuantizedBlocking::choose(match->contraction, match->weight,
                                            target, unit, why);
  if (!blocking)
    return Proposal::refuse(why);
  return {std::make_unique<QuantizedPlan>(std::move(*match), *blocking, target),
          {}};
}

} // namespace

const PlanRow tileDigitsRow{"tile_digits",
                            propose<QuantizedBlocking::Unit::Tiles>};
const PlanRow vectorDigitsRow{"vector_digits",
                              propose<QuantizedBlocking::Unit::Vectors>};

} // namespace kernels
} // namespace anabranch
