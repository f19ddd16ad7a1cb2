// Softmax and norms become reductions and elementwise generics over the same rows.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @softmax
//       CHECK:   arith.maximumf
//       CHECK:   math.exp
//       CHECK:   iterator_types = ["parallel", "reduction"]
//       CHECK:     arith.addf
//       CHECK:   arith.divf
//       CHECK:   arith.truncf %{{.*}} : f32 to bf16
func.func @softmax(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xbf16>
  %r = anabranch.aten "_softmax"(%x) dims(%n) {self = #anabranch.operand<0>, dim = -1, half_to_float = false} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %r : tensor<?x8xbf16>
}

// CHECK-LABEL: func @scalar_softmax
//       CHECK:   tensor.expand_shape %{{.*}} [] output_shape [1] : tensor<f32> into tensor<1xf32>
//       CHECK:   tensor.collapse_shape %{{.*}} [] : tensor<1xf32> into tensor<f32>
func.func @scalar_softmax(%x: tensor<f32>) -> tensor<f32> {
  %r = anabranch.aten "_softmax"(%x) {self = #anabranch.operand<0>, dim = 0, half_to_float = false} : (tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// CHECK-LABEL: func @layer_norm
//       CHECK:   iterator_types = ["parallel", "parallel", "reduction"]
//       CHECK:   iterator_types = ["parallel", "parallel", "reduction"]
//       CHECK:   math.rsqrt
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel"]
//       CHECK:   return
func.func @layer_norm(%x: tensor<?x?x8xf32>, %w: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %r:3 = anabranch.aten "native_layer_norm"(%x, %w) dims(%n, %m, %n, %m, %n, %m) {input = #anabranch.operand<0>, normalized_shape = [8], weight = #anabranch.operand<1>, bias, eps = 1.0e-5} : (tensor<?x?x8xf32>, tensor<8xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>)
  return %r#0 : tensor<?x?x8xf32>
}

// CHECK-LABEL: func @group_norm
//       CHECK:   tensor.expand_shape %{{.*}} output_shape [2, 3, 2, 5] : tensor<2x6x5xf32> into tensor<2x3x2x5xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "reduction", "reduction"]
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<2x3x2x5xf32> into tensor<2x6x5xf32>
func.func @group_norm(%x: tensor<2x6x5xf32>, %w: tensor<6xf32>) -> (tensor<2x6x5xf32>, tensor<2x3xf32>) {
  %r:3 = anabranch.aten "native_group_norm"(%x, %w) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias, N = 2, C = 6, HxW = 5, group = 3, eps = 1.0e-5} : (tensor<2x6x5xf32>, tensor<6xf32>) -> (tensor<2x6x5xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return %r#0, %r#1 : tensor<2x6x5xf32>, tensor<2x3xf32>
}
