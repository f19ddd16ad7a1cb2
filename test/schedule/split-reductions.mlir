// Few large sums become many partial ones, which workers share, and their sums.
// RUN: anabranch-opt %s --anabranch-split-reductions --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @statistics
// CHECK: %[[PARTIAL:.*]] = linalg.generic {{.*}}["parallel", "reduction", "parallel"]
// CHECK-SAME: ins(%arg0 : tensor<128x64x32xf32>) outs(%{{.*}} : tensor<128x32xf32>)
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}}["reduction", "parallel"]
// CHECK-SAME: ins(%[[PARTIAL]] : tensor<128x32xf32>) outs(%{{.*}} : tensor<32xf32>)
// CHECK-NOT: arith.mulf
func.func @statistics(%x: tensor<128x64x32xf32>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(h, w, c) -> (h, w, c)>, affine_map<(h, w, c) -> (c)>],
      iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<128x64x32xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %q = arith.mulf %l, %l : f32
    %s = arith.addf %o, %q : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  return %r : tensor<32xf32>
}

// -----

// Sums that are many enough, that begin elsewhere than at zero, or of few points, stay as they are.
// CHECK-LABEL: func.func @whole
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @whole(%x: tensor<16x16x4096xf32>, %y: tensor<16x16x32xf32>) -> (tensor<4096xf32>, tensor<32xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %many = linalg.generic {indexing_maps = [affine_map<(h, w, c) -> (h, w, c)>, affine_map<(h, w, c) -> (c)>],
      iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<16x16x4096xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.addf %o, %l : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  %e1 = tensor.empty() : tensor<32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<32xf32>) -> tensor<32xf32>
  %small = linalg.generic {indexing_maps = [affine_map<(h, w, c) -> (h, w, c)>, affine_map<(h, w, c) -> (c)>],
      iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%y : tensor<16x16x32xf32>) outs(%f1 : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.addf %o, %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  %e2 = tensor.empty() : tensor<f32>
  %f2 = linalg.fill ins(%one : f32) outs(%e2 : tensor<f32>) -> tensor<f32>
  %elsewhere = linalg.generic {indexing_maps = [affine_map<(h, w, c) -> (h, w, c)>, affine_map<(h, w, c) -> ()>],
      iterator_types = ["reduction", "reduction", "reduction"]}
      ins(%x : tensor<16x16x4096xf32>) outs(%f2 : tensor<f32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.addf %o, %l : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %many, %small, %elsewhere : tensor<4096xf32>, tensor<32xf32>, tensor<f32>
}

// -----

// A loop without suitable steps is divided.
// CHECK-LABEL: func.func @divided
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<100000x128xf32> into tensor<8x12500x128xf32>
// CHECK: %[[PARTIAL:.*]] = linalg.generic {{.*}}["reduction", "parallel", "parallel"]
// CHECK-SAME: ins(%[[PARTS]] : tensor<8x12500x128xf32>) outs(%{{.*}} : tensor<8x128xf32>)
// CHECK: linalg.generic {{.*}}["reduction", "parallel"]
// CHECK-SAME: ins(%[[PARTIAL]] : tensor<8x128xf32>) outs(%{{.*}} : tensor<128xf32>)
// CHECK-NOT: linalg.generic
func.func @divided(%x: tensor<100000x128xf32>) -> tensor<128xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128xf32>) -> tensor<128xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>],
      iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<100000x128xf32>) outs(%f : tensor<128xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.addf %o, %l : f32
    linalg.yield %s : f32
  } -> tensor<128xf32>
  return %r : tensor<128xf32>
}
