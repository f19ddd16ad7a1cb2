// Gathers clamp and check the index. index.Tensor counts negative ones from the end.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @embedding
//       CHECK:   linalg.generic
//       CHECK:     %[[I:.*]] = arith.index_cast %{{.*}} : i32 to index
//       CHECK:     %[[OK:.*]] = arith.cmpi ult, %[[I]]
//       CHECK:     anabranch.check %[[OK]], 1
//       CHECK:     %[[SAFE:.*]] = arith.select %[[OK]], %[[I]]
//       CHECK:     tensor.extract %{{.*}}[%[[SAFE]], %{{.*}}] : tensor<9x4xf32>
func.func @embedding(%w: tensor<9x4xf32>, %i: tensor<2x3xi32>) -> tensor<2x3x4xf32> {
  %v = anabranch.aten "embedding"(%w, %i) {weight = #anabranch.operand<0>, indices = #anabranch.operand<1>, padding_idx = -1, scale_grad_by_freq = false, sparse = false} : (tensor<9x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  return %v : tensor<2x3x4xf32>
}

// Dimensions of index tensors come first in the result if a slice parts the tensors.
// CHECK-LABEL: func @index_apart
//       CHECK:   linalg.generic
//       CHECK:     %[[MID:.*]] = linalg.index 1
//       CHECK:     arith.cmpi slt
//       CHECK:     arith.cmpi slt
//       CHECK:     tensor.extract %{{.*}}[%{{.*}}, %[[MID]], %{{.*}}] : tensor<3x4x5xf32>
func.func @index_apart(%x: tensor<3x4x5xf32>, %i: tensor<2xi64>, %j: tensor<2xi64>) -> tensor<2x4xf32> {
  %v = anabranch.aten "index.Tensor"(%x, %i, %j) {self = #anabranch.operand<0>, indices = [#anabranch.operand<1>, unit, #anabranch.operand<2>]} : (tensor<3x4x5xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// CHECK-LABEL: func @mask
//       CHECK:   anabranch.refusal = "a mask among the indices"
func.func @mask(%x: tensor<3xf32>, %m: tensor<3xi1>, %n: index) -> tensor<?xf32> {
  %v = anabranch.aten "index.Tensor"(%x, %m) dims(%n) {self = #anabranch.operand<0>, indices = [#anabranch.operand<1>]} : (tensor<3xf32>, tensor<3xi1>) -> tensor<?xf32>
  return %v : tensor<?xf32>
}
