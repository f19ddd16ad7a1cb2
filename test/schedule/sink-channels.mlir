// Channels stay last between convolutions: views move after their readers.
// RUN: anabranch-opt %s --anabranch-sink-channels --cse | FileCheck %s

#second = affine_map<(n, c, h, w) -> (n, h, w, c)>
#last = affine_map<(n, h, w, c) -> (n, c, h, w)>
#id = affine_map<(a, b, c, d) -> (a, b, c, d)>

// The view after a convolution moves after pointwise operators until it meets the
// view before the next convolution; both vanish.
// CHECK-LABEL: func @pointwise
//  CHECK-SAME:   %[[X:.*]]: tensor<1x4x5x8xf32>
//       CHECK:   %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x4x5x8xf32>) outs(%{{.*}} : tensor<1x4x5x8xf32>)
//       CHECK:     arith.negf
//       CHECK:   return %[[R]]
func.func @pointwise(%x: tensor<1x4x5x8xf32>) -> tensor<1x4x5x8xf32> {
  %e = tensor.empty() : tensor<1x8x4x5xf32>
  %0 = linalg.generic {indexing_maps = [#second, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x5x8xf32>) outs(%e : tensor<1x8x4x5xf32>) attrs = {anabranch.channels = "second"} {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x4x5xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : tensor<1x8x4x5xf32>) outs(%e : tensor<1x8x4x5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<1x8x4x5xf32>
  %f = tensor.empty() : tensor<1x4x5x8xf32>
  %2 = linalg.generic {indexing_maps = [#last, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%1 : tensor<1x8x4x5xf32>) outs(%f : tensor<1x4x5x8xf32>) attrs = {anabranch.channels = "last"} {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x4x5x8xf32>
  return %2 : tensor<1x4x5x8xf32>
}

// A view before a convolution that meets no other view is stored.
// CHECK-LABEL: func @first
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "last", anabranch.stored}
func.func @first(%x: tensor<1x8x4x5xf32>) -> tensor<1x4x5x8xf32> {
  %f = tensor.empty() : tensor<1x4x5x8xf32>
  %2 = linalg.generic {indexing_maps = [#last, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x4x5xf32>) outs(%f : tensor<1x4x5x8xf32>) attrs = {anabranch.channels = "last"} {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x4x5x8xf32>
  return %2 : tensor<1x4x5x8xf32>
}

// Paddings and slices get their channels last too.
// CHECK-LABEL: func @moves
//  CHECK-SAME:   %[[X:.*]]: tensor<1x4x5x8xf32>
//       CHECK:   %[[PAD:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 1, 1, 0] [1, 4, 5, 8] [1, 1, 1, 1] : tensor<1x4x5x8xf32> into tensor<1x6x7x8xf32>
//       CHECK:   tensor.extract_slice %[[PAD]][0, 0, 0, 2] [1, 3, 4, 6] [1, 2, 2, 1]
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "second"}
func.func @moves(%x: tensor<1x4x5x8xf32>) -> tensor<1x6x3x4xf32> {
  %e = tensor.empty() : tensor<1x8x4x5xf32>
  %0 = linalg.generic {indexing_maps = [#second, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x5x8xf32>) outs(%e : tensor<1x8x4x5xf32>) attrs = {anabranch.channels = "second"} {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x4x5xf32>
  %zero = arith.constant 0.0 : f32
  %p = tensor.empty() : tensor<1x8x6x7xf32>
  %padded = linalg.fill ins(%zero : f32) outs(%p : tensor<1x8x6x7xf32>) -> tensor<1x8x6x7xf32>
  %1 = tensor.insert_slice %0 into %padded[0, 0, 1, 1] [1, 8, 4, 5] [1, 1, 1, 1] : tensor<1x8x4x5xf32> into tensor<1x8x6x7xf32>
  %2 = tensor.extract_slice %1[0, 2, 0, 0] [1, 6, 3, 4] [1, 1, 2, 2] : tensor<1x8x6x7xf32> to tensor<1x6x3x4xf32>
  return %2 : tensor<1x6x3x4xf32>
}

// A reduction reads the operand of the view, and its result has no channels to move.
// CHECK-LABEL: func @sums
//  CHECK-SAME:   %[[X:.*]]: tensor<1x4x5x8xf32>
//       CHECK:   %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x4x5x8xf32>) outs(%{{.*}} : tensor<1x8xf32>)
//       CHECK:     arith.addf
//       CHECK:   return %[[SUM]]
func.func @sums(%x: tensor<1x4x5x8xf32>) -> tensor<1x8xf32> {
  %e = tensor.empty() : tensor<1x8x4x5xf32>
  %0 = linalg.generic {indexing_maps = [#second, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x5x8xf32>) outs(%e : tensor<1x8x4x5xf32>) attrs = {anabranch.channels = "second"} {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x4x5xf32>
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<1x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%s : tensor<1x8xf32>) -> tensor<1x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, affine_map<(a, b, c, d) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%0 : tensor<1x8x4x5xf32>) outs(%i : tensor<1x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}
