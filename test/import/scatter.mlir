// Scatters loop over the updates. They check and clamp indices.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// Many updates may meet in one element: narrow floats are summed as f32 and
// rounded once.
// CHECK-LABEL: func @scatter_add
//  CHECK-SAME:   %[[X:.*]]: tensor<3x4xbf16>, %[[I:.*]]: tensor<3x5xi64>, %[[S:.*]]: tensor<3x6xbf16>
//       CHECK:   %[[PART:.*]] = tensor.extract_slice %[[S]][0, 0] [3, 5] [1, 1]
//       CHECK:   %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[X]] :
//       CHECK:   anabranch.scatter %[[PART]] into %[[WIDE]]
//       CHECK:   ^bb0(%[[P:.*]]: index, %[[Q:.*]]: index, %[[OLD:.*]]: f32, %[[NEW:.*]]: bf16):
//       CHECK:     tensor.extract %[[I]][%[[P]], %[[Q]]]
//       CHECK:     anabranch.check %{{.*}}, 1
//       CHECK:     %[[AT:.*]] = arith.select
//       CHECK:     %[[SUM:.*]] = arith.addf %[[OLD]], %{{.*}} : f32
//       CHECK:     anabranch.yield %[[P]], %[[AT]], %[[SUM]] : index, index, f32
//       CHECK:   arith.truncf
func.func @scatter_add(%x: tensor<3x4xbf16>, %i: tensor<3x5xi64>, %s: tensor<3x6xbf16>) -> tensor<3x4xbf16> {
  %r = anabranch.aten "scatter_add"(%x, %i, %s) {self = #anabranch.operand<0>, dim = 1, index = #anabranch.operand<1>, src = #anabranch.operand<2>} : (tensor<3x4xbf16>, tensor<3x5xi64>, tensor<3x6xbf16>) -> tensor<3x4xbf16>
  return %r : tensor<3x4xbf16>
}

// Of few updates the sum of those that meet is added to the narrow element.
// CHECK-LABEL: func @few
//  CHECK-SAME:   %[[X:.*]]: tensor<3x40xbf16>, %[[I:.*]]: tensor<3x5xi64>
//       CHECK:   %[[MET:.*]] = arith.cmpi eq
//       CHECK:   arith.select %[[MET]]
//       CHECK:   anabranch.scatter %{{.*}} into %[[X]]
//       CHECK:     arith.truncf
//       CHECK:     anabranch.yield {{.*}}, bf16
func.func @few(%x: tensor<3x40xbf16>, %i: tensor<3x5xi64>, %s: tensor<3x5xbf16>) -> tensor<3x40xbf16> {
  %r = anabranch.aten "scatter_add"(%x, %i, %s) {self = #anabranch.operand<0>, dim = 1, index = #anabranch.operand<1>, src = #anabranch.operand<2>} : (tensor<3x40xbf16>, tensor<3x5xi64>, tensor<3x5xbf16>) -> tensor<3x40xbf16>
  return %r : tensor<3x40xbf16>
}

// An index that is the same for each column is read from the tensor that was
// broadcast, so rows have one position.
// CHECK-LABEL: func @rows
//  CHECK-SAME:   %arg0: tensor<3x4xf32>, %[[I:.*]]: tensor<2x1xi64>
//       CHECK:   anabranch.scatter
//       CHECK:   ^bb0(%[[P:.*]]: index, %[[Q:.*]]: index,
//       CHECK:     %[[ZERO:.*]] = arith.constant 0 : index
//       CHECK:     tensor.extract %[[I]][%[[P]], %[[ZERO]]]
func.func @rows(%x: tensor<3x4xf32>, %i: tensor<2x1xi64>, %s: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %wide = anabranch.aten "expand"(%i) {self = #anabranch.operand<0>, size = [2, 4]} : (tensor<2x1xi64>) -> tensor<2x4xi64>
  %r = anabranch.aten "scatter_add"(%x, %wide, %s) {self = #anabranch.operand<0>, dim = 0, index = #anabranch.operand<1>, src = #anabranch.operand<2>} : (tensor<3x4xf32>, tensor<2x4xi64>, tensor<2x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// Elements that are reduced without their old value first become neutral.
// CHECK-LABEL: func @amax_of_new
//       CHECK:   anabranch.scatter
//       CHECK:     0xFF800000
//       CHECK:   anabranch.scatter
//       CHECK:     arith.maximumf
func.func @amax_of_new(%x: tensor<3xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) -> tensor<3xf32> {
  %r = anabranch.aten "scatter_reduce.two"(%x, %i, %s) {self = #anabranch.operand<0>, dim = 0, index = #anabranch.operand<1>, src = #anabranch.operand<2>, reduce = "amax", include_self = false} : (tensor<3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// A mean: the sum, the number of values of each element, and the quotient.
// CHECK-LABEL: func @mean
//       CHECK:   anabranch.scatter %{{.*}} into %arg0
//       CHECK:     arith.addf
//       CHECK:   anabranch.scatter
//       CHECK:     arith.addi
//       CHECK:   arith.divf
func.func @mean(%x: tensor<3xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) -> tensor<3xf32> {
  %r = anabranch.aten "scatter_reduce.two"(%x, %i, %s) {self = #anabranch.operand<0>, dim = 0, index = #anabranch.operand<1>, src = #anabranch.operand<2>, reduce = "mean", include_self = true} : (tensor<3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// The values broadcast to the shape of the indexed elements.
// CHECK-LABEL: func @index_put
//       CHECK:   %[[V:.*]] = linalg.generic
//       CHECK:   anabranch.scatter %[[V]] into %{{.*}}
//       CHECK:     arith.cmpi slt
//       CHECK:     anabranch.yield
func.func @index_put(%x: tensor<3x?xf32>, %i: tensor<2xi64>, %v: tensor<f32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %r = anabranch.aten "index_put"(%x, %i, %v) dims(%n) {self = #anabranch.operand<0>, indices = [#anabranch.operand<1>], values = #anabranch.operand<2>, accumulate = false} : (tensor<3x?xf32>, tensor<2xi64>, tensor<f32>) -> tensor<3x?xf32>
  return %r : tensor<3x?xf32>
}

// index_put of a number at a mask is elementwise.
// CHECK-LABEL: func @masked_put
//   CHECK-NOT:   anabranch.scatter
//       CHECK:   arith.select
func.func @masked_put(%x: tensor<3x4xf32>, %m: tensor<3xi1>, %v: tensor<f32>) -> tensor<3x4xf32> {
  %r = anabranch.aten "index_put"(%x, %m, %v) {self = #anabranch.operand<0>, indices = [#anabranch.operand<1>], values = #anabranch.operand<2>, accumulate = false} : (tensor<3x4xf32>, tensor<3xi1>, tensor<f32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}
