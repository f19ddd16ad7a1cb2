// A product is one contraction. Half types accumulate in f32 and round once.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>

// The contraction reads a transposed weight in place.
// CHECK-LABEL: func @addmm
//  CHECK-SAME:   %[[B:.*]]: tensor<3xf32>, %[[X:.*]]: tensor<5x7xf32>, %[[W:.*]]: tensor<3x7xf32>
//       CHECK:   linalg.generic {indexing_maps = [#[[LEFT]], #[[ROWS]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
//       CHECK:     arith.mulf
//       CHECK:     arith.addf
//       CHECK:   linalg.generic
//   CHECK-NOT:     arith.mulf
//       CHECK:     arith.addf
func.func @addmm(%b: tensor<3xf32>, %x: tensor<5x7xf32>, %w: tensor<3x7xf32>) -> tensor<5x3xf32> {
  %t = anabranch.aten "permute"(%w) {self = #anabranch.operand<0>, dims = [1, 0]} : (tensor<3x7xf32>) -> tensor<7x3xf32>
  %r = anabranch.aten "addmm"(%b, %x, %t) {self = #anabranch.operand<0>, mat1 = #anabranch.operand<1>, mat2 = #anabranch.operand<2>, alpha = 1, beta = 1} : (tensor<3xf32>, tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}

// CHECK-LABEL: func @linear
//       CHECK:   tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]]
//       CHECK:   linalg.generic {indexing_maps = [#[[LEFT]], #[[ROWS]], #{{.*}}]
//       CHECK:     arith.extf %{{.*}} : bf16 to f32
//       CHECK:     linalg.yield %{{.*}} : f32
//       CHECK:   linalg.generic
//       CHECK:     arith.truncf %{{.*}} : f32 to bf16
//       CHECK:   tensor.expand_shape
func.func @linear(%x: tensor<?x5x7xbf16>, %w: tensor<3x7xbf16>) -> tensor<?x5x3xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x5x7xbf16>
  %r = anabranch.aten "linear"(%x, %w) dims(%n) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias} : (tensor<?x5x7xbf16>, tensor<3x7xbf16>) -> tensor<?x5x3xbf16>
  return %r : tensor<?x5x3xbf16>
}

// CHECK-LABEL: func @nothing_to_sum
//       CHECK:   linalg.fill
//   CHECK-NOT:   linalg.generic
func.func @nothing_to_sum(%x: tensor<5x0xf32>, %w: tensor<0x3xf32>) -> tensor<5x3xf32> {
  %r = anabranch.aten "mm"(%x, %w) {self = #anabranch.operand<0>, mat2 = #anabranch.operand<1>} : (tensor<5x0xf32>, tensor<0x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}
