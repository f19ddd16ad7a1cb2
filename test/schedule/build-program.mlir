// A program has kernels, command lists, sizes and buffers.
// RUN: anabranch-opt %s --until=memory | FileCheck %s

// Two equal layers share one kernel. The program writes to the mutated input in place.
// CHECK: anabranch.program "main"
// CHECK-SAME: sizes @anabranch_sizes
// CHECK: anabranch.input "arg0" "f32" [#anabranch.slot<0>, 8]
// CHECK: anabranch.input "arg1" "f32" [4] mutated
// CHECK: anabranch.buffer "arena"
// CHECK: anabranch.stream "main"
// CHECK: anabranch.launch @[[K:k_[a-z]+_[0-9]+]]
// CHECK: anabranch.launch @[[K]]
// CHECK: anabranch.launch @[[ADD:.*]] reads(%[[C:[0-9]+]]) writes(%[[C]]) sizes []
// CHECK-NOT: anabranch.copy
// CHECK: anabranch.output "tensor"
// CHECK: anabranch.output "alias" input 1
// CHECK: func.func @[[ADD]]({{.*}}) -> (tensor<4xf32> {anabranch.in_place = 0 : i64})
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#i = affine_map<(i) -> (i)>
func.func @main(%x: tensor<?x8xf32>, %cache: tensor<4xf32>, %w: tensor<8x8xf32>)
    -> (tensor<?x8xf32>, tensor<4xf32>, tensor<4xf32> {anabranch.writes = 1 : i64}) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%z : tensor<?x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x8xf32>
  %1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %w : tensor<?x8xf32>, tensor<8x8xf32>) outs(%z : tensor<?x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x8xf32>
  %ce = tensor.empty() : tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%cache : tensor<4xf32>) outs(%ce : tensor<4xf32>) {
  ^bb0(%l: f32, %o: f32):
    %p = arith.addf %l, %one : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %1, %cache, %2 : tensor<?x8xf32>, tensor<4xf32>, tensor<4xf32>
}
