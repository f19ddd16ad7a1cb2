// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// Broadcasting repeats static sizes of one, and missing dimensions.
// CHECK-LABEL: func @broadcast
func.func @broadcast(%a: tensor<8x1xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  // CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}], iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %{{.*}} : tensor<8x1xf32>, tensor<16xf32>)
  // CHECK: arith.addf
  // CHECK-NOT: arith.mulf
  %0 = anabranch.aten "add.Tensor"(%a, %b) {self = #anabranch.operand<0>, other = #anabranch.operand<1>, alpha = 1 : i64}
    : (tensor<8x1xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// Operators of half precision compute in f32.
// CHECK-LABEL: func @half
func.func @half(%a: tensor<?xbf16>, %n: index) -> tensor<?xbf16> {
  // CHECK: tensor.empty(%arg1) : tensor<?xbf16>
  // CHECK: arith.extf
  // CHECK: math.tanh %{{.*}} : f32
  // CHECK: arith.truncf
  %0 = anabranch.aten "tanh"(%a) dims(%n) {self = #anabranch.operand<0>} : (tensor<?xbf16>) -> tensor<?xbf16>
  return %0 : tensor<?xbf16>
}

// A formula may contain a symbolic size, like any number.
// CHECK-LABEL: func @symbol
func.func @symbol(%a: tensor<4xi64>, %n: index) -> tensor<4xi64> {
  // CHECK: arith.index_cast %arg1 : index to i64
  // CHECK: arith.muli
  %0 = anabranch.aten "mul.Scalar"(%a, %n) {self = #anabranch.operand<0>, other = #anabranch.operand<1>}
    : (tensor<4xi64>, index) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Integers become floats before a division, unsigned bytes as unsigned.
// CHECK-LABEL: func @divide
func.func @divide(%a: tensor<4xi8>, %b: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xi8>) {
  // CHECK: arith.uitofp
  // CHECK: arith.sitofp
  // CHECK: arith.divf
  %0 = anabranch.aten "div.Tensor"(%a, %b) {self = #anabranch.operand<0>, other = #anabranch.operand<1>} {unsignedOperands = array<i64: 0>}
    : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xf32>
  // Division by zero fails the kernel.
  // CHECK: anabranch.check %{{.*}}, 2
  // CHECK: arith.divui
  %1 = anabranch.aten "floor_divide"(%a, %a) {self = #anabranch.operand<0>, other = #anabranch.operand<1>} {unsignedOperands = array<i64: 0, 1>, unsignedResults = array<i64: 0>}
    : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  return %0, %1 : tensor<4xf32>, tensor<4xi8>
}

// A comparison of int64 with a Python float computes in the promoted dtype.
// CHECK-LABEL: func @compare
func.func @compare(%a: tensor<4xi64>) -> tensor<4xi1> {
  // CHECK: arith.sitofp %{{.*}} : i64 to f32
  // CHECK: arith.cmpf olt
  %0 = anabranch.aten "lt.Scalar"(%a) {self = #anabranch.operand<0>, other = 2.5 : f64} : (tensor<4xi64>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// A call without a lowering stays, and keeps the refusal.
// CHECK-LABEL: func @refused
func.func @refused(%a: tensor<4xi64>, %b: tensor<4xcomplex<f32>>) -> (tensor<4xi64>, tensor<4xcomplex<f32>>, tensor<4xi64>) {
  // CHECK: "gelu"{{.*}}refusal = "no lowering for dtype i64"
  %0 = anabranch.aten "gelu"(%a) {self = #anabranch.operand<0>, approximate = "none"} : (tensor<4xi64>) -> tensor<4xi64>
  // CHECK: "neg"{{.*}}refusal = "no lowering for dtype c64"
  %1 = anabranch.aten "neg"(%b) {self = #anabranch.operand<0>} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  // CHECK: "topk_of_mine"{{.*}}refusal = "no lowering"
  %2 = anabranch.aten "topk_of_mine"(%a) {self = #anabranch.operand<0>} : (tensor<4xi64>) -> tensor<4xi64>
  return %0, %1, %2 : tensor<4xi64>, tensor<4xcomplex<f32>>, tensor<4xi64>
}
