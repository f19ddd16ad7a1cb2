// RUN: anabranch-opt %s --pass-pipeline="builtin.module(func.func(anabranch-number-fences))" | FileCheck %s

// A fence names its point. Readers of the tensors that it passes on come after the
// point, also through a view, and then read the tensors themselves.
// CHECK-LABEL: func.func @main
// CHECK: %[[D:.*]] = linalg.generic {{.*}} attrs = {anabranch.points = array<i64: 0>}
// CHECK: anabranch.fence {anabranch.after = array<i64: 0>, anabranch.points = array<i64: 1>, anabranch.scope = #anabranch.scope<"s", 0, 0>}
// CHECK: %[[V:.*]] = tensor.expand_shape %arg0 {{.*}} {anabranch.after = array<i64: 1>}
// CHECK: linalg.generic {{.*}} ins(%[[V]] {{.*}} attrs = {anabranch.after = array<i64: 1>}
// CHECK-NOT: anabranch.fence
#i = affine_map<(i) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %d = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %y = anabranch.fence passes(%x : tensor<4xf32>) after(%d : tensor<4xf32>) {anabranch.scope = #anabranch.scope<"s", 0, 0>} -> tensor<4xf32>
  %v = tensor.expand_shape %y [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %e2 = tensor.empty() : tensor<2x2xf32>
  %z = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<2x2xf32>) outs(%e2 : tensor<2x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<2x2xf32>
  // No effect: an argument is there already.
  anabranch.fence after(%x : tensor<4xf32>) {anabranch.scope = #anabranch.scope<"s", 0, 0>}
  return %d, %z : tensor<4xf32>, tensor<2x2xf32>
}
