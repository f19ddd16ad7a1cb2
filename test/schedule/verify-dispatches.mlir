// Operations that may not remain beside dispatches.
// RUN: anabranch-opt %s --split-input-file --verify-diagnostics \
// RUN:   --anabranch-verify-dispatches

// Dispatches, calls, reshapes of whole buffers and arithmetic on sizes may remain.
func.func @main(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> (tensor<?xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %0 = anabranch.dispatch ins(%x : tensor<?x4xf32>) dims(%n) {
  ^bb0(%a: tensor<?x4xf32>):
    anabranch.yield %a : tensor<?x4xf32>
  } {kind = "loops"} -> tensor<?x4xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  %2 = anabranch.aten "sort"(%y) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<?xf32>, tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @below {{is not of level "dispatch"}}
  %0 = tensor.extract_slice %x[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is not of level "dispatch"}}
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @below {{is not of level "dispatch"}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
