// Kernels write results with strides where they lie, also with sizes of one.
// RUN: anabranch-opt %s --until=memory | FileCheck %s

// CHECK: anabranch.launch @[[ADD:k_.*]] reads
// CHECK: anabranch.launch @[[MUL:k_.*]] reads
// 36 points in a row have no stride that writes them as [4, 9] with strides [1, 4].
// CHECK: anabranch.copy
// CHECK-NOT: anabranch.copy
// CHECK: anabranch.output
// CHECK: func.func @[[ADD]]({{.*}}) -> (tensor<4x3x3xf32> {anabranch.strides = array<i64: 1, 12, 4>})
// CHECK: func.func @[[MUL]]({{.*}}) -> tensor<36xf32>
#a = affine_map<(i, j, k) -> (i, j, k)>
#b = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4x3x3xf32>, %y: tensor<36xf32>)
    -> (tensor<1x4x3x3xf32> {anabranch.strides = array<i64: 36, 1, 12, 4>},
        tensor<4x9xf32> {anabranch.strides = array<i64: 1, 4>}) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x3x3xf32>
  %0 = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<4x3x3xf32>) outs(%e : tensor<4x3x3xf32>) {
  ^bb0(%l: f32, %o: f32):
    %p = arith.addf %l, %one : f32
    linalg.yield %p : f32
  } -> tensor<4x3x3xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [1, 4, 3, 3] : tensor<4x3x3xf32> into tensor<1x4x3x3xf32>
  %f = tensor.empty() : tensor<36xf32>
  %2 = linalg.generic {indexing_maps = [#b, #b], iterator_types = ["parallel"]}
      ins(%y : tensor<36xf32>) outs(%f : tensor<36xf32>) {
  ^bb0(%l: f32, %o: f32):
    %p = arith.mulf %l, %l : f32
    linalg.yield %p : f32
  } -> tensor<36xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [4, 9] : tensor<36xf32> into tensor<4x9xf32>
  return %1, %3 : tensor<1x4x3x3xf32>, tensor<4x9xf32>
}
