// A reshape moves behind its readers.
// RUN: anabranch-opt %s --anabranch-collapse-reshapes | FileCheck %s

// CHECK-LABEL: func.func @behind
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0 : tensor<6x4xf32>)
// CHECK: tensor.expand_shape
#id = affine_map<(i, j, k) -> (i, j, k)>
func.func @behind(%x: tensor<6x4xf32>) -> tensor<2x3x4xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %e = tensor.empty() : tensor<2x3x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xf32>) {
  ^bb0(%l: f32, %o: f32):
    %p = math.exp %l : f32
    linalg.yield %p : f32
  } -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}
