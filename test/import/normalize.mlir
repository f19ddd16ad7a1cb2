// RUN: anabranch-opt %s --anabranch-normalize-aten | FileCheck %s

// The pass removes copies of values and unused calls, and merges equal calls.
// CHECK-LABEL: func @values
func.func @values(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[R:.*]] = anabranch.aten "relu"(%arg0)
  // CHECK-NEXT: %[[S:.*]] = anabranch.aten "add.Tensor"(%[[R]])
  // CHECK-NEXT: return %[[S]]
  %0 = anabranch.aten "clone"(%a) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = anabranch.aten "relu"(%0) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = anabranch.aten "relu"(%a) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = anabranch.aten "mul.Tensor"(%2) {self = #anabranch.operand<0>, other = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = anabranch.aten "sin"(%3) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = anabranch.aten "add.Tensor"(%1) {self = #anabranch.operand<0>, other = #anabranch.operand<0>, alpha = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}

// The pass neither merges nor removes calls that draw random numbers.
// CHECK-LABEL: func @ordered
func.func @ordered() -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: "rand"
  %0 = anabranch.aten "rand"() ordered {size = [4]} : () -> tensor<4xf32>
  %1 = anabranch.aten "rand"() ordered {size = [4]} : () -> tensor<4xf32>
  %2 = anabranch.aten "rand"() ordered {size = [4]} : () -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Two results that have two buffers in PyTorch keep two buffers.
// CHECK-LABEL: func @results
func.func @results(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  // CHECK: %[[D:.*]] = tensor.dim %arg0
  // CHECK: %[[R:.*]] = anabranch.aten "relu"
  // CHECK: %[[C:.*]] = anabranch.aten "clone"(%arg0) dims(%{{.*}})
  // CHECK: %[[E:.*]] = anabranch.aten "clone"(%[[R]])
  // CHECK: return %arg0, %[[C]], %[[R]], %[[E]]
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %0 = anabranch.aten "clone"(%a) dims(%n) {self = #anabranch.operand<0>} : (tensor<?xf32>) -> tensor<?xf32>
  %1 = anabranch.aten "relu"(%a) dims(%n) {self = #anabranch.operand<0>} : (tensor<?xf32>) -> tensor<?xf32>
  %2 = anabranch.aten "relu"(%a) dims(%n) {self = #anabranch.operand<0>} : (tensor<?xf32>) -> tensor<?xf32>
  return %a, %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
