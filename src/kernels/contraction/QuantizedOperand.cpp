//===- QuantizedOperand.cpp - a weight of few bits as an operand ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/QuantizedOperand.h"

#include "kernels/microkernel/CodePairs.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

std::optional<QuantizedOperand>
QuantizedOperand::find(const Contraction &contraction, std::string &why) {
  linalg::GenericOp product = contraction.op;
  unsigned number = contraction.right.number;
  auto made = product->getOperand(number).getDefiningOp<linalg::GenericOp>();
  auto layout = ir::quantizedWeightOf(made);
  if (!layout) {
    why = "the right operand is no weight of few bits";
    return std::nullopt;
  }
  AffineMap map = product.getIndexingMapsArray()[number];
  unsigned dims[] = {contraction.column, contraction.depth};
  // The body reads those that there are in this order: integers, table, scale,
  // offset.
  SmallVector<unsigned> arguments;
  SmallVector<Type> elements;
  made.getBody()->walk([&](tensor::ExtractOp extract) {
    if (auto argument = dyn_cast<BlockArgument>(extract.getTensor())) {
      arguments.push_back(argument.getArgNumber());
      elements.push_back(extract.getType());
    }
  });
  bool hasTable = layout->code == ir::QuantizedWeight::Code::Table;
  size_t scale = hasTable ? 2 : 1,
         offset = layout->hasScale ? scale + 1 : scale;
  if (map != AffineMap::getMultiDimMapWithTargets(product.getNumLoops(), dims,
                                                  map.getContext()) ||
      arguments.size() < offset || arguments.size() > offset + 1) {
    why = "the weight is read in another order than [column, depth]";
    return std::nullopt;
  }
  auto shape = cast<RankedTensorType>(made.getResult(0).getType()).getShape();
  Type f32 = Float32Type::get(map.getContext());
  QuantizedOperand operand{*layout,      arguments[0], std::nullopt,
                           std::nullopt, std::nullopt, shape[0],
                           shape[1],     f32,          f32};
  if (layout->hasScale) {
    operand.scale = arguments[scale];
    operand.scaleElement = elements[scale];
  }
  if (hasTable)
    operand.table = arguments[1];
  if (arguments.size() > offset) {
    operand.offset = arguments[offset];
    operand.offsetElement = elements[offset];
  }
  return operand;
}

FloatType QuantizedOperand::codesIn(const Contraction &contraction,
                                    const Word &word, const native::Isa &isa,
                                    int64_t lanes) {
  auto weight = find(contraction);
  if (!weight || weight->layout.hasScale ||
      weight->depths % CodePairs::depths != 0 ||
      word.product.pairs != WordProduct::Pairs::Dot)
    return {};
  FloatType code = weight->layout.floatType(contraction.element.getContext());
  return CodePairs::exist(isa, code, lanes) ? code : FloatType();
}

} // namespace kernels
} // namespace anabranch
