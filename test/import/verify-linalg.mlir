// Operations that may not remain after lowering.
// RUN: anabranch-opt %s --split-input-file --verify-diagnostics \
// RUN:   --anabranch-verify-linalg

// Operators without a lowering stay calls.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = anabranch.aten "sort"(%x) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // A named operation would hide its computation from fusion.
  // expected-error @below {{is not of level "linalg"}}
  %0 = linalg.matmul ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is not of level "linalg"}}
  %0 = anabranch.dispatch ins(%x : tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    anabranch.yield %a : tensor<4xf32>
  } {kind = "loops"} -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
