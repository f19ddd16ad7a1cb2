// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// `where` takes a 0-d tensor and a number like other tensors.
// CHECK-LABEL: func @where
func.func @where(%c: tensor<2x3xi1>, %a: tensor<f32>) -> tensor<2x3xf32> {
  // CHECK: arith.constant 1.500000e+00 : f32
  // CHECK: arith.select
  %0 = anabranch.aten "where.ScalarOther"(%c, %a) {condition = #anabranch.operand<0>, self = #anabranch.operand<1>, other = 1.5 : f64}
    : (tensor<2x3xi1>, tensor<f32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func @masked_fill
func.func @masked_fill(%a: tensor<2x3xf16>, %m: tensor<3xi1>) -> tensor<2x3xf16> {
  // CHECK: arith.constant 0xFF800000 : f32
  // CHECK: arith.select
  %0 = anabranch.aten "masked_fill.Scalar"(%a, %m) {self = #anabranch.operand<0>, mask = #anabranch.operand<1>, value = 0xFFF0000000000000 : f64}
    : (tensor<2x3xf16>, tensor<3xi1>) -> tensor<2x3xf16>
  return %0 : tensor<2x3xf16>
}

// Each operand becomes a bool in its own dtype.
// CHECK-LABEL: func @logical
func.func @logical(%a: tensor<4xf32>, %b: tensor<4xi32>) -> tensor<4xi1> {
  // CHECK: arith.cmpf une
  // CHECK: arith.cmpi ne
  // CHECK: arith.andi %{{.*}} : i1
  %0 = anabranch.aten "logical_and"(%a, %b) {self = #anabranch.operand<0>, other = #anabranch.operand<1>}
    : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// CHECK-LABEL: func @clamp
func.func @clamp(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: arith.maximumf
  // CHECK: arith.minimumf
  %0 = anabranch.aten "clamp"(%a) {self = #anabranch.operand<0>, min, max = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An integer is never NaN, so the result does not read the operand.
// CHECK-LABEL: func @isnan
func.func @isnan(%a: tensor<4xi64>) -> tensor<4xi1> {
  // CHECK: linalg.generic
  // CHECK-SAME: outs(%{{.*}} : tensor<4xi1>)
  // CHECK: linalg.yield %false
  %0 = anabranch.aten "isnan"(%a) {self = #anabranch.operand<0>} : (tensor<4xi64>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
