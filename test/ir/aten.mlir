// An operator call prints as it was read, and unused pure calls are removed.
// RUN: anabranch-opt %s | FileCheck %s
// RUN: anabranch-opt %s --canonicalize | FileCheck %s --check-prefix=DEAD

// CHECK-LABEL: func.func @main
// CHECK: anabranch.aten "add.Tensor"(%{{.*}}, %{{.*}}) {alpha = 1 : i64, other = #anabranch.operand<1>, self = #anabranch.operand<0>}
// CHECK-SAME: (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
// CHECK: anabranch.aten "rand"() ordered
// DEAD-LABEL: func.func @main
// DEAD: "add.Tensor"
// DEAD-NOT: "mul.Tensor"
// DEAD: "rand"
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %0 = anabranch.aten "add.Tensor"(%a, %b) {self = #anabranch.operand<0>,
      other = #anabranch.operand<1>, alpha = 1 : i64}
      : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %1 = anabranch.aten "mul.Tensor"(%a, %b) {self = #anabranch.operand<0>,
      other = #anabranch.operand<1>}
      : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %2 = anabranch.aten "rand"() ordered {size = [2]} : () -> tensor<2xf32>
  return %0 : tensor<8x16xf32>
}
