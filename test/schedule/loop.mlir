// A loop has spare buffers, one for each value that it carries, and a bool for its
// condition. Its stacked result has no spare buffer.
// RUN: anabranch-opt %s --until=memory | FileCheck %s

// CHECK-DAG: %[[SPARE:.*]] = anabranch.buffer "arena" memory {{.*}} "f32" [4] bytes 16
// CHECK-DAG: %[[FLAG:.*]] = anabranch.buffer "arena" memory {{.*}} "bool" [] bytes 1
// CHECK: anabranch.call "anabranch::loop" reads(%{{.*}}) writes(%{{[0-9]+}}, %{{[0-9]+}}, %[[FLAG]])
// CHECK: anabranch.call "anabranch::loop" reads(%{{.*}}, %{{.*}}) writes(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) {{.*}} wanted [0, 1]
func.func @main(%x: tensor<4xf32>, %xs: tensor<3x4xf32>)
    -> (tensor<4xf32>, tensor<3x4xf32>) {
  %0 = anabranch.aten "anabranch::loop"(%x)
      {arguments = [], body = 1, carried = [#anabranch.operand<0>],
       condition = 0, scanned = [], trips}
      : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = anabranch.aten "anabranch::loop"(%0, %xs)
      {arguments = [], body = 2, carried = [#anabranch.operand<0>],
       condition, scanned = [#anabranch.operand<1>], trips = 3}
      : (tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
  return %1#0, %1#1 : tensor<4xf32>, tensor<3x4xf32>
}
