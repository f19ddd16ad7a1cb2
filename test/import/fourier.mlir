// Transforms stay one operation, with both parts of a complex result in one tensor.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @half
//       CHECK:   %[[Z:.*]] = anabranch.fft %arg0 along 0 dims(%{{.*}}) {norm = 2 : i64} : (tensor<8x?xf32>, index) -> tensor<2x5x?xf32>
//       CHECK:   tensor.extract_slice %[[Z]][0, 0, 0] [1, 5, %{{.*}}] [1, 1, 1] : tensor<2x5x?xf32> to tensor<5x?xf32>
//       CHECK:   tensor.extract_slice %[[Z]][1, 0, 0] [1, 5, %{{.*}}] [1, 1, 1] : tensor<2x5x?xf32> to tensor<5x?xf32>
func.func @half(%x: tensor<8x?xf32>) -> (tensor<5x?xf32>, tensor<5x?xf32>) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<8x?xf32>
  %re, %im = anabranch.aten "anabranch::fft_real_to_half"(%x) dims(%n, %n) {self = #anabranch.operand<0>, dim = -2 : i64, norm = 2 : i64} : (tensor<8x?xf32>) -> (tensor<5x?xf32>, tensor<5x?xf32>)
  return %re, %im : tensor<5x?xf32>, tensor<5x?xf32>
}

// CHECK-LABEL: func @inverse
//       CHECK:   anabranch.fft %arg0, %arg1 along 1 {inverse, norm = 0 : i64} : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<2x3x4xf64>
func.func @inverse(%a: tensor<3x4xf64>, %b: tensor<3x4xf64>) -> (tensor<3x4xf64>, tensor<3x4xf64>) {
  %re, %im = anabranch.aten "anabranch::fft_complex"(%a, %b) {re = #anabranch.operand<0>, im = #anabranch.operand<1>, dim = 1 : i64, inverse = true, norm = 0 : i64} : (tensor<3x4xf64>, tensor<3x4xf64>) -> (tensor<3x4xf64>, tensor<3x4xf64>)
  return %re, %im : tensor<3x4xf64>, tensor<3x4xf64>
}

// CHECK-LABEL: func @real
//       CHECK:   anabranch.fft %arg0, %arg1 along 1 {norm = 0 : i64, toReal} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x7xf32>
func.func @real(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x7xf32> {
  %r = anabranch.aten "anabranch::fft_half_to_real"(%a, %b) {re = #anabranch.operand<0>, im = #anabranch.operand<1>, dim = 1 : i64, length = 7 : i64, norm = 0 : i64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x7xf32>
  return %r : tensor<3x7xf32>
}

// The same bytes, unless the caller need not give contiguous memory.
// CHECK-LABEL: func @views
//       CHECK:   anabranch.reinterpret %arg0 : tensor<?x4xcomplex<f32>> to tensor<?x4x2xf32>
//       CHECK:   anabranch.aten "view_as_real"(%arg1) {{.*}}"an input that is not contiguous"
func.func @views(%z: tensor<?x4xcomplex<f32>>, %s: tensor<4x4xcomplex<f32>> {anabranch.strides = array<i64: 1, 4>}) -> (tensor<?x4x2xf32>, tensor<4x4x2xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %z, %c0 : tensor<?x4xcomplex<f32>>
  %p = anabranch.aten "view_as_real"(%z) dims(%n) {self = #anabranch.operand<0>} : (tensor<?x4xcomplex<f32>>) -> tensor<?x4x2xf32>
  %q = anabranch.aten "view_as_real"(%s) {self = #anabranch.operand<0>} : (tensor<4x4xcomplex<f32>>) -> tensor<4x4x2xf32>
  return %p, %q : tensor<?x4x2xf32>, tensor<4x4x2xf32>
}
