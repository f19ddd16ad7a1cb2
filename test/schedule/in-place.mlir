// Results that overwrite an operand in the arena.
// RUN: anabranch-opt %s --split-input-file --anabranch-build-program \
// RUN:   --anabranch-plan-memory --anabranch-verify-program | FileCheck %s

#i = affine_map<(i, j) -> (i, j)>

// A chain of pointwise kernels stays in one buffer, also with another shape and
// with elements of another type of the same size.
// CHECK-LABEL: anabranch.program "chain"
// CHECK-SAME: arena 256
// CHECK: launch @{{.*}} writes(%[[A:[0-9]+]])
// CHECK: launch @{{.*}} reads(%[[A]]) writes(%[[B:[0-9]+]])
// CHECK: launch @{{.*}} reads(%[[B]]) writes(%{{[0-9]+}})
// CHECK: func.func @{{.*}} -> (tensor<8x8xi32> {anabranch.in_place = 0 : i64})
module attributes {anabranch.name = "chain"} {
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xi32> {
  %0 = anabranch.dispatch ins(%x : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = arith.negf %l : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %1 = anabranch.dispatch ins(%0 : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xi32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xi32>) {
    ^bb0(%l: f32, %o: i32):
      %n = arith.fptosi %l : f32 to i32
      linalg.yield %n : i32
    } -> tensor<8x8xi32>
    anabranch.yield %r : tensor<8x8xi32>
  } {kind = "loops"} -> tensor<8x8xi32>
  %2 = anabranch.dispatch ins(%1 : tensor<8x8xi32>) {
  ^bb0(%a: tensor<8x8xi32>):
    %e = tensor.empty() : tensor<8x8xi32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xi32>) outs(%e : tensor<8x8xi32>) {
    ^bb0(%l: i32, %o: i32):
      %n = arith.addi %l, %l : i32
      linalg.yield %n : i32
    } -> tensor<8x8xi32>
    anabranch.yield %r : tensor<8x8xi32>
  } {kind = "loops"} -> tensor<8x8xi32>
  return %2 : tensor<8x8xi32>
}
}

// -----

// A kernel overwrites neither an operand that it reads at other positions, nor one
// with another reader that may run later.
// CHECK-LABEL: anabranch.program "kept"
// CHECK-NOT: anabranch.in_place
#i = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>
module attributes {anabranch.name = "kept"} {
func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = anabranch.dispatch ins(%x : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = arith.negf %l : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %1 = anabranch.dispatch ins(%0 : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#i, #t, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %m: f32, %o: f32):
      %n = arith.addf %l, %m : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %2 = anabranch.dispatch ins(%1 : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = arith.negf %l : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %3 = anabranch.dispatch ins(%1 : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = math.absf %l : f32
      linalg.yield %n : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %4 = anabranch.dispatch ins(%2 : tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %e = tensor.empty() : tensor<8x8xf32>
    %r = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%l: f32, %o: f32):
      linalg.yield %l : f32
    } -> tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  return %4, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// Kernels that change parts of an argument, one after the other, write into it.
// CHECK-LABEL: anabranch.program "parts"
// CHECK-SAME: arena 0
// CHECK: launch @{{.*}} reads(%[[C:[0-9]+]], %{{[0-9]+}}) writes(%[[C]])
// CHECK: launch @{{.*}} reads(%[[C]], %{{[0-9]+}}) writes(%[[C]])
// CHECK: func.func @{{.*}} -> (tensor<8x8xf32> {anabranch.in_place = 0 : i64})
module attributes {anabranch.name = "parts"} {
func.func @main(%c: tensor<8x8xf32> {anabranch.mutated}, %x: tensor<2x8xf32>) -> (tensor<8x8xf32> {anabranch.writes = 0 : i64}) {
  %0 = anabranch.dispatch ins(%c, %x : tensor<8x8xf32>, tensor<2x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<2x8xf32>):
    %r = tensor.insert_slice %b into %a[1, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  %1 = anabranch.dispatch ins(%0, %x : tensor<8x8xf32>, tensor<2x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>, %b: tensor<2x8xf32>):
    %r = tensor.insert_slice %b into %a[5, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<8x8xf32>
    anabranch.yield %r : tensor<8x8xf32>
  } {kind = "loops"} -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
}
