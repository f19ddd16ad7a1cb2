// Reshapes group as few dimensions as possible. Permutations are generics.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @split_heads
//       CHECK:   tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3]]
//   CHECK-NOT:   collapse_shape
//       CHECK:   linalg.generic
func.func @split_heads(%x: tensor<?x?x384xf32>) -> tensor<?x12x?x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x384xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x384xf32>
  %v = anabranch.aten "view"(%x) dims(%b, %s) {self = #anabranch.operand<0>} : (tensor<?x?x384xf32>) -> tensor<?x?x12x32xf32>
  %t = anabranch.aten "permute"(%v) dims(%b, %s) {self = #anabranch.operand<0>, dims = [0, 2, 1, 3]} : (tensor<?x?x12x32xf32>) -> tensor<?x12x?x32xf32>
  return %t : tensor<?x12x?x32xf32>
}

// CHECK-LABEL: func @merge_rows
//       CHECK:   tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]]
//       CHECK:   tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2]]
func.func @merge_rows(%x: tensor<?x?x384xf32>) -> tensor<?x?x384xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x384xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x384xf32>
  %n = arith.muli %b, %s : index
  %v = anabranch.aten "view"(%x) dims(%n) {self = #anabranch.operand<0>} : (tensor<?x?x384xf32>) -> tensor<?x384xf32>
  %w = anabranch.aten "view"(%v) dims(%b, %s) {self = #anabranch.operand<0>} : (tensor<?x384xf32>) -> tensor<?x?x384xf32>
  return %w : tensor<?x?x384xf32>
}

// CHECK-LABEL: func @no_common_factor
//       CHECK:   tensor.collapse_shape %{{.*}} {{\[\[}}0, 1]]
//       CHECK:   tensor.expand_shape %{{.*}} {{\[\[}}0, 1]]
func.func @no_common_factor(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %v = anabranch.aten "view"(%x) {self = #anabranch.operand<0>} : (tensor<4x6xf32>) -> tensor<3x8xf32>
  return %v : tensor<3x8xf32>
}

// CHECK-LABEL: func @to_scalar
//       CHECK:   tensor.collapse_shape %{{.*}} [] : tensor<1x1xf32> into tensor<f32>
func.func @to_scalar(%x: tensor<1x1xf32>) -> tensor<f32> {
  %v = anabranch.aten "squeeze"(%x) {self = #anabranch.operand<0>} : (tensor<1x1xf32>) -> tensor<f32>
  return %v : tensor<f32>
}

// Symbolic sizes with a static product: no reassociation expresses this.
// CHECK-LABEL: func @by_index
//       CHECK:   tensor.extract
func.func @by_index(%x: tensor<6xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
  %v = anabranch.aten "view"(%x) dims(%n, %m) {self = #anabranch.operand<0>} : (tensor<6xf32>) -> tensor<?x?xf32>
  return %v : tensor<?x?xf32>
}

// If only dimensions of size one move, the permutation is a reshape.
// CHECK-LABEL: func @unit_dims
//   CHECK-NOT:   linalg.generic
//       CHECK:   tensor.collapse_shape
func.func @unit_dims(%x: tensor<4x1x8xf32>) -> tensor<1x4x8xf32> {
  %t = anabranch.aten "transpose.int"(%x) {self = #anabranch.operand<0>, dim0 = 0, dim1 = 1} : (tensor<4x1x8xf32>) -> tensor<1x4x8xf32>
  return %t : tensor<1x4x8xf32>
}

// CHECK-LABEL: func @empty
//       CHECK:   tensor.empty() : tensor<0x5xf32>
func.func @empty(%x: tensor<0x3xf32>) -> tensor<0x5xf32> {
  %v = anabranch.aten "view"(%x) {self = #anabranch.operand<0>} : (tensor<0x3xf32>) -> tensor<0x5xf32>
  return %v : tensor<0x5xf32>
}

// CHECK-LABEL: func @expand
//       CHECK:   linalg.generic
//  CHECK-NEXT:   ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
//  CHECK-NEXT:     linalg.yield %[[X]]
func.func @expand(%x: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %v = anabranch.aten "expand"(%x) {self = #anabranch.operand<0>} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return %v : tensor<2x3x4xf32>
}

// CHECK-LABEL: func @repeat
//       CHECK:   linalg.generic
//       CHECK:   tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2], [3, 4]] : tensor<2x3x4x3x5xf32> into tensor<6x4x15xf32>
func.func @repeat(%x: tensor<3x4x5xf32>) -> tensor<6x4x15xf32> {
  %v = anabranch.aten "repeat"(%x) {self = #anabranch.operand<0>, repeats = [2, 1, 3]} : (tensor<3x4x5xf32>) -> tensor<6x4x15xf32>
  return %v : tensor<6x4x15xf32>
}
