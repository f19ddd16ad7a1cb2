// A reshape moves after its readers.
// RUN: anabranch-opt %s --anabranch-collapse-reshapes | FileCheck %s

// CHECK-LABEL: func.func @after
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0 : tensor<6x4xf32>)
// CHECK: tensor.expand_shape
#id = affine_map<(i, j, k) -> (i, j, k)>
func.func @after(%x: tensor<6x4xf32>) -> tensor<2x3x4xf32> {
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

// The groups of a convolution stay apart until the operators after its product are done, so that one kernel
// can have all of them. The bias of all channels is split instead.
// CHECK-LABEL: func.func @groups
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "parallel", "reduction"]
// CHECK-NOT: tensor.collapse_shape
// CHECK: tensor.expand_shape %arg2 {{.*}} : tensor<8xf32> into tensor<2x4xf32>
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: tensor.collapse_shape {{.*}} : tensor<6x2x4xf32> into tensor<6x8xf32>
func.func @groups(%x: tensor<6x2x5xf32>, %w: tensor<2x4x5xf32>, %b: tensor<8xf32>) -> tensor<6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x2x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x2x4xf32>) -> tensor<6x2x4xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, g, f, k) -> (i, g, k)>, affine_map<(i, g, f, k) -> (g, f, k)>, affine_map<(i, g, f, k) -> (i, g, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<6x2x5xf32>, tensor<2x4x5xf32>) outs(%f : tensor<6x2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<6x2x4xf32>
  %c = tensor.collapse_shape %p [[0], [1, 2]] : tensor<6x2x4xf32> into tensor<6x8xf32>
  %d = tensor.empty() : tensor<6x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, c) -> (i, c)>, affine_map<(i, c) -> (c)>, affine_map<(i, c) -> (i, c)>], iterator_types = ["parallel", "parallel"]}
      ins(%c, %b : tensor<6x8xf32>, tensor<8xf32>) outs(%d : tensor<6x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}
