//===- Scattering.cpp - building anabranch.scatter ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/Scattering.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

Value scatter(LoweringBuilder &b, Operand init, Operand updates,
              PlaceFn place) {
  OperationState state(b.loc, ir::ScatterOp::getOperationName());
  state.addOperands({init.value, updates.value});
  state.addTypes(init.value.getType());
  state.addRegion();
  auto op = cast<ir::ScatterOp>(b.builder.create(state));
  SmallVector<Type> types(updates.rank(), b.builder.getIndexType());
  types.append({init.dtype.type, updates.dtype.type});
  SmallVector<Location> locations(types.size(), b.loc);
  OpBuilder::InsertionGuard guard(b.builder);
  Block *block = b.builder.createBlock(&op.getBody(), {}, types, locations);
  Body body{b.builder, b.loc};
  ArrayRef<BlockArgument> arguments = block->getArguments();
  Indices point(arguments.drop_back(2));
  Num current{&body, arguments[point.size()], init.dtype};
  Num update{&body, arguments[point.size() + 1], updates.dtype};
  Placed placed = place(body, point, current, update);
  SmallVector<Value> yielded(placed.position);
  yielded.push_back(s::cast(placed.value, init.dtype).value);
  b.create<ir::YieldOp>(yielded);
  return op.getResult();
}

Value indexAt(Body &body, Value tensor, ArrayRef<Value> point, Value size,
              bool wrap) {
  Value element =
      body.builder.create<tensor::ExtractOp>(body.loc, tensor, point);
  return checkedIndex(body, element, size, wrap);
}

} // namespace importer
} // namespace anabranch
