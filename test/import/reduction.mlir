// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// bf16 accumulates in f32. A view adds the kept dimension.
// CHECK-LABEL: func @sum
func.func @sum(%a: tensor<?x8xbf16>, %n: index) -> tensor<?x1xbf16> {
  // CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<?xf32>)
  // CHECK: iterator_types = ["parallel", "reduction"]
  // CHECK: arith.extf
  // CHECK: arith.addf %{{.*}} : f32
  // CHECK: arith.truncf
  // CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] output_shape [%dim, 1]
  %0 = anabranch.aten "sum.dim_IntList"(%a) dims(%n) {self = #anabranch.operand<0>, dim = [-1], keepdim = true, dtype}
    : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  return %0 : tensor<?x1xbf16>
}

// First the extreme, then its first position. NaN counts as an extreme.
// CHECK-LABEL: func @max
func.func @max(%a: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK: arith.maximumf
  // CHECK: arith.cmpf oeq
  // CHECK: arith.cmpf uno
  // CHECK: arith.minsi %{{.*}} : i32
  // CHECK: arith.extsi %{{.*}} : i32 to i64
  %0:2 = anabranch.aten "max.dim"(%a) {self = #anabranch.operand<0>, dim = 1 : i64, keepdim = false}
    : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// An unused index is not computed.
// CHECK-LABEL: func @max_value
// CHECK-NOT: linalg.index
func.func @max_value(%a: tensor<4x8xf32>) -> tensor<4xf32> {
  %0:2 = anabranch.aten "max.dim"(%a) {self = #anabranch.operand<0>, dim = 1 : i64, keepdim = false}
    : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0 : tensor<4xf32>
}

// The variance reads the mean of its row for every element.
// CHECK-LABEL: func @var
func.func @var(%a: tensor<4x8xf32>) -> tensor<4xf32> {
  // CHECK: arith.addf
  // CHECK: arith.divf
  // CHECK: ins(%arg0, %{{.*}} : tensor<4x8xf32>, tensor<4xf32>)
  // CHECK: arith.subf
  %0 = anabranch.aten "var.correction"(%a) {self = #anabranch.operand<0>, dim = [1], correction = 1 : i64, keepdim = false}
    : (tensor<4x8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func @cumsum
func.func @cumsum(%a: tensor<4x8xi32>) -> tensor<4x8xi64> {
  // CHECK: arith.extsi
  // CHECK: anabranch.scan %{{.*}}, %{{.*}} along 1
  // CHECK: arith.addi
  // CHECK: anabranch.yield
  %0 = anabranch.aten "cumsum"(%a) {self = #anabranch.operand<0>, dim = -1 : i64, dtype} : (tensor<4x8xi32>) -> tensor<4x8xi64>
  return %0 : tensor<4x8xi64>
}
