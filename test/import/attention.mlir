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
