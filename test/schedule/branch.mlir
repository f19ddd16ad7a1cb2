// A branch is a call that writes its results into the program's memory. It gets
// contiguous tensors: an argument with strides is copied first.
// RUN: anabranch-opt %s --until=memory | FileCheck %s

// CHECK: %[[X:.*]] = anabranch.buffer "input" of 1 memory {{.*}} strides [1, 4]
// CHECK: %[[KEPT:.*]] = anabranch.buffer "arena" memory {{.*}} "f32" [4, 4] bytes 64
// CHECK: %[[FLAG:.*]] = anabranch.buffer "input" of 0
// CHECK: %[[MADE:.*]] = anabranch.buffer "arena" memory {{.*}} "f32" [4, 4] bytes 64
// CHECK: %[[OUT:.*]] = anabranch.buffer "output" of 0
// CHECK: anabranch.copy %[[X]] to %[[KEPT]]
// CHECK: anabranch.call "anabranch::cond" reads(%[[KEPT]], %[[FLAG]]) writes(%[[MADE]])
// CHECK-SAME: ["arguments", "predicate", "regions"]
// CHECK: anabranch.copy %[[MADE]] to %[[OUT]]
// CHECK: anabranch.output "tensor" %[[OUT]]
func.func @main(%flag: tensor<i1>,
                %x: tensor<4x4xf32> {anabranch.strides = array<i64: 1, 4>})
    -> tensor<4x4xf32> {
  %0 = anabranch.aten "anabranch::cond"(%x, %flag)
      {arguments = [#anabranch.operand<0>], predicate = #anabranch.operand<1>,
       regions = [0, 1]}
      : (tensor<4x4xf32>, tensor<i1>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
