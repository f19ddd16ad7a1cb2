//===- AttentionFew.cpp - attention of few queries ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Where a token is decoded, each key and value is used for a query or a few:
// they are read where they lie, since a copy would cost more than the products.
//
//===----------------------------------------------------------------------===//

#include "codegen/AttentionEmitter.h"

#include "codegen/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// The sums of all lanes of each vector, as the lanes of one.
static Value sumEach(LaneBuilder &lanes, ArrayRef<Value> vectors) {
  SmallVector<Value> parts = transpose(lanes, vectors);
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] =
          lanes.make<arith::AddFOp>(parts[i], parts[i + parts.size() / 2]);
  return parts[0];
}

/// scores = queries * keys^T for a block of keys, a vector of keys at a time.
void AttentionEmitter::scoreFew(Value firstKey) {
  int64_t size =
      cast<RankedTensorType>(op.getKey().getType()).getShape().back();
  lanes.loop(lanes.index(0), lanes.index(t.keys), t.lanes, [&](Value group) {
    SmallVector<Value> rows = keysFrom(lanes.addIndex(firstKey, group));
    for (int64_t query = 0; query < t.rows; ++query) {
      SmallVector<Value> sums(t.lanes);
      for (int64_t at = 0; at < t.head; at += t.lanes) {
        Value depth = lanes.index(at);
        Value left = loadVector(queries, lanes.index(query * t.head + at));
        LaneBuilder::Shape shape(lanes, t.lanes, headMask(size, depth));
        for (auto [sum, row] : llvm::zip(sums, rows)) {
          Value key = lanes.vector(element(op.getKey(), Lanes::uniform(row),
                                           Lanes::linear(depth, 1, t.lanes)));
          sum = sum ? lanes.make<vector::FMAOp>(left, key, sum)
                    : lanes.make<arith::MulFOp>(left, key);
        }
      }
      Value at = lanes.addIndex(lanes.index(query * t.keys), group);
      storeValue(sumEach(lanes, sums), scores, at);
    }
  });
}

/// output += scores * values for `count` keys, with the output in registers.
void AttentionEmitter::mixFew(Value firstKey, Value count) {
  int64_t size =
      cast<RankedTensorType>(op.getValue().getType()).getShape().back();
  auto type = VectorType::get({t.lanes}, t.element);
  for (int64_t query = 0; query < t.rows; ++query) {
    SmallVector<Value> sums;
    for (int64_t at = 0; at < t.valueHead; at += t.lanes)
      sums.push_back(loadVector(output, lanes.index(query * t.valueHead + at)));
    sums = lanes.loop(
        lanes.index(0), count, 1, sums, [&](Value number, ValueRange before) {
          SmallVector<Value> after;
          Value key = lanes.addIndex(firstKey, number);
          Value weight = loadScalar(
              scores, lanes.addIndex(lanes.index(query * t.keys), number));
          Value weights = lanes.make<vector::BroadcastOp>(type, weight);
          for (auto [i, sum] : llvm::enumerate(before)) {
            Value column = lanes.index(i * t.lanes);
            LaneBuilder::Shape shape(lanes, t.lanes, headMask(size, column),
                                     /*maybeEmpty=*/true);
            Value value =
                lanes.vector(element(op.getValue(), Lanes::uniform(key),
                                     Lanes::linear(column, 1, t.lanes)));
            after.push_back(lanes.make<vector::FMAOp>(weights, value, sum));
          }
          return after;
        });
    for (auto [i, sum] : llvm::enumerate(sums))
      storeValue(sum, output, lanes.index(query * t.valueHead + i * t.lanes));
  }
}

} // namespace codegen
} // namespace anabranch
