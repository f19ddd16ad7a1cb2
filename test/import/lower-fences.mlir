// Waits and records of streams become fences.
// RUN: anabranch-opt %s --until=lower | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>
// CHECK: %[[D:.*]] = linalg.generic
// CHECK: anabranch.fence after(%[[D]] : tensor<4xf32>) {anabranch.scope = #anabranch.scope<"side", 0, 0>}
// CHECK: %[[Y:.*]] = anabranch.fence passes(%[[X]] : tensor<4xf32>) {{.*}} -> tensor<4xf32>
// The operations that a call becomes get its scope.
// CHECK: linalg.generic {{.*}} ins(%[[Y]] {{.*}} {anabranch.scope = #anabranch.scope<"side", 0, 0>}
// CHECK: %[[E:.*]] = anabranch.fence passes(%{{.*}} : tensor<0xf32>) {records = "done"}
// CHECK: anabranch.fence after(%[[E]] : tensor<0xf32>)
// CHECK: anabranch.fence {awaits = "other"}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %d = anabranch.aten "relu"(%x) {self = #anabranch.operand<0>} : (tensor<4xf32>) -> tensor<4xf32>
  anabranch.aten "anabranch::wait"(%x, %d) ordered {dependency = #anabranch.operand<1>, self = #anabranch.operand<0>} {anabranch.scope = #anabranch.scope<"side", 0, 0>} : (tensor<4xf32>, tensor<4xf32>) -> ()
  %y = anabranch.aten "anabranch::pass"(%x) ordered {self = #anabranch.operand<0>} {anabranch.scope = #anabranch.scope<"side", 0, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %z = anabranch.aten "neg"(%y) {self = #anabranch.operand<0>} {anabranch.scope = #anabranch.scope<"side", 0, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %e = anabranch.aten "anabranch::record"() ordered {tag = "done"} : () -> tensor<0xf32>
  anabranch.aten "anabranch::wait_event"(%e) ordered {event = #anabranch.operand<0>} : (tensor<0xf32>) -> ()
  anabranch.aten "anabranch::wait_tag"() ordered {tag = "other"} : () -> ()
  return %d, %z : tensor<4xf32>, tensor<4xf32>
}
