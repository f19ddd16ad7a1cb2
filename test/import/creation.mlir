// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @full
func.func @full(%n: index) -> tensor<?x2xi1> {
  // CHECK: %[[TRUE:.*]] = arith.constant true
  // CHECK: linalg.fill ins(%[[TRUE]] : i1) outs(%{{.*}} : tensor<?x2xi1>)
  %0 = anabranch.aten "full"(%n) dims(%n) {size = [#anabranch.operand<0>, 2], fill_value = 1 : i64, dtype = i1} : (index) -> tensor<?x2xi1>
  return %0 : tensor<?x2xi1>
}

// `arange` of floats rounds every element once.
// CHECK-LABEL: func @arange
func.func @arange() -> tensor<5xf32> {
  // CHECK: linalg.index 0
  // CHECK: arith.mulf %{{.*}} : f64
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  %0 = anabranch.aten "arange.start_step"() {start = 0 : i64, end = 1 : i64, step = 0.2 : f64} : () -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// CHECK-LABEL: func @convert
func.func @convert(%a: tensor<4xf64>, %b: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xi8>) {
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  %0 = anabranch.aten "_to_copy"(%a) {self = #anabranch.operand<0>, dtype = bf16} : (tensor<4xf64>) -> tensor<4xbf16>
  // CHECK: arith.fptosi %{{.*}} : f32 to i32
  // CHECK: arith.trunci %{{.*}} : i32 to i8
  %1 = anabranch.aten "_to_copy"(%b) {self = #anabranch.operand<0>, dtype = i8} : (tensor<4xf32>) -> tensor<4xi8>
  return %0, %1 : tensor<4xbf16>, tensor<4xi8>
}
