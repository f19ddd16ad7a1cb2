// Attention stays one operation until a pass decomposes it. Grouped heads need no copy.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s --check-prefix=WHOLE
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-decompose-attention --anabranch-verify-linalg | FileCheck %s

// WHOLE-LABEL: func @grouped
//       WHOLE:   anabranch.attention %{{.*}} dims(%{{.*}}) {causal, grouped, scale = 5.000000e-01 : f64}
// CHECK-LABEL: func @grouped
//       CHECK:   tensor.expand_shape %{{.*}} : tensor<2x6x?x4xf32> into tensor<2x3x2x?x4xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]
//       CHECK:   math.exp
//       CHECK:   arith.divf
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<2x3x2x?x4xf32> into tensor<2x6x?x4xf32>
func.func @grouped(%q: tensor<2x6x?x4xf32>, %k: tensor<2x3x?x4xf32>, %v: tensor<2x3x?x4xf32>) -> tensor<2x6x?x4xf32> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<2x6x?x4xf32>
  %r = anabranch.aten "scaled_dot_product_attention"(%q, %k, %v) dims(%n) {query = #anabranch.operand<0>, key = #anabranch.operand<1>, value = #anabranch.operand<2>, attn_mask, dropout_p = 0.0, is_causal = true, scale, enable_gqa = true} : (tensor<2x6x?x4xf32>, tensor<2x3x?x4xf32>, tensor<2x3x?x4xf32>) -> tensor<2x6x?x4xf32>
  return %r : tensor<2x6x?x4xf32>
}

// Heads that a model repeats for the queries, as transformers' repeat_kv does, are shared.
// WHOLE-LABEL: func @repeated
//       WHOLE:   anabranch.attention %arg0, %{{.*}}, %{{.*}} {grouped, scale = 5.000000e-01 : f64} : (tensor<1x6x5x4xf32>, tensor<1x3x7x4xf32>, tensor<1x3x7x4xf32>)
func.func @repeated(%q: tensor<1x6x5x4xf32>, %k: tensor<1x3x7x4xf32>, %v: tensor<1x3x7x4xf32>) -> tensor<1x6x5x4xf32> {
  %k1 = anabranch.aten "unsqueeze"(%k) {self = #anabranch.operand<0>, dim = 2} : (tensor<1x3x7x4xf32>) -> tensor<1x3x1x7x4xf32>
  %k2 = anabranch.aten "expand"(%k1) {self = #anabranch.operand<0>, size = [1, 3, 2, 7, 4], implicit = false} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x2x7x4xf32>
  %k3 = anabranch.aten "view"(%k2) {self = #anabranch.operand<0>, size = [1, 6, 7, 4]} : (tensor<1x3x2x7x4xf32>) -> tensor<1x6x7x4xf32>
  %v1 = anabranch.aten "unsqueeze"(%v) {self = #anabranch.operand<0>, dim = 2} : (tensor<1x3x7x4xf32>) -> tensor<1x3x1x7x4xf32>
  %v2 = anabranch.aten "expand"(%v1) {self = #anabranch.operand<0>, size = [1, 3, 2, 7, 4], implicit = false} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x2x7x4xf32>
  %v3 = anabranch.aten "view"(%v2) {self = #anabranch.operand<0>, size = [1, 6, 7, 4]} : (tensor<1x3x2x7x4xf32>) -> tensor<1x6x7x4xf32>
  %r = anabranch.aten "scaled_dot_product_attention"(%q, %k3, %v3) {query = #anabranch.operand<0>, key = #anabranch.operand<1>, value = #anabranch.operand<2>, attn_mask, dropout_p = 0.0, is_causal = false, scale, enable_gqa = false} : (tensor<1x6x5x4xf32>, tensor<1x6x7x4xf32>, tensor<1x6x7x4xf32>) -> tensor<1x6x5x4xf32>
  return %r : tensor<1x6x5x4xf32>
}

// The second key head goes to the second query: heads that repeat as a whole are not shared.
// WHOLE-LABEL: func @tiled
//   WHOLE-NOT:   grouped
//       WHOLE:   anabranch.attention %arg0, %{{.*}}, %{{.*}} {scale = 5.000000e-01 : f64} : (tensor<1x6x5x4xf32>, tensor<1x6x7x4xf32>, tensor<1x6x7x4xf32>)
func.func @tiled(%q: tensor<1x6x5x4xf32>, %k: tensor<1x3x7x4xf32>, %v: tensor<1x3x7x4xf32>) -> tensor<1x6x5x4xf32> {
  %k1 = anabranch.aten "unsqueeze"(%k) {self = #anabranch.operand<0>, dim = 1} : (tensor<1x3x7x4xf32>) -> tensor<1x1x3x7x4xf32>
  %k2 = anabranch.aten "expand"(%k1) {self = #anabranch.operand<0>, size = [1, 2, 3, 7, 4], implicit = false} : (tensor<1x1x3x7x4xf32>) -> tensor<1x2x3x7x4xf32>
  %k3 = anabranch.aten "view"(%k2) {self = #anabranch.operand<0>, size = [1, 6, 7, 4]} : (tensor<1x2x3x7x4xf32>) -> tensor<1x6x7x4xf32>
  %r = anabranch.aten "scaled_dot_product_attention"(%q, %k3, %k3) {query = #anabranch.operand<0>, key = #anabranch.operand<1>, value = #anabranch.operand<2>, attn_mask, dropout_p = 0.0, is_causal = false, scale, enable_gqa = false} : (tensor<1x6x5x4xf32>, tensor<1x6x7x4xf32>, tensor<1x6x7x4xf32>) -> tensor<1x6x5x4xf32>
  return %r : tensor<1x6x5x4xf32>
}

// Inputs that share a symbol have equal batches.
// WHOLE-LABEL: func @shared_symbol
//       WHOLE:   anabranch.attention %arg0, %arg1, %arg2 dims(%{{.*}}) {scale = 5.000000e-01 : f64}
func.func @shared_symbol(%q: tensor<?x2x5x4xf32>, %k: tensor<?x2x7x4xf32>, %v: tensor<?x2x7x4xf32>) -> tensor<?x2x5x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x5x4xf32>
  %of_k = tensor.dim %k, %c0 : tensor<?x2x7x4xf32>
  anabranch.expect %of_k is %n
  %of_v = tensor.dim %v, %c0 : tensor<?x2x7x4xf32>
  anabranch.expect %of_v is %n
  %r = anabranch.aten "scaled_dot_product_attention"(%q, %k, %v) dims(%n) {query = #anabranch.operand<0>, key = #anabranch.operand<1>, value = #anabranch.operand<2>, attn_mask, dropout_p = 0.0, is_causal = false, scale, enable_gqa = false} : (tensor<?x2x5x4xf32>, tensor<?x2x7x4xf32>, tensor<?x2x7x4xf32>) -> tensor<?x2x5x4xf32>
  return %r : tensor<?x2x5x4xf32>
}
