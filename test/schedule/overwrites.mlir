// Operators that write their arguments: where they work on a copy.
// RUN: anabranch-opt %s --split-input-file --anabranch-build-program \
// RUN:   --anabranch-plan-memory --anabranch-verify-program | FileCheck %s

#i = affine_map<(i) -> (i)>

// The caller's memory and a kernel's result are written where they lie. What the
// second operator wrote is the output.
// CHECK-LABEL: anabranch.program "in_place"
// CHECK-DAG: %[[X:[0-9]+]] = anabranch.buffer "input" of 0
// CHECK-DAG: %[[Y:[0-9]+]] = anabranch.buffer "output" of 0
// CHECK: call "mylib::bump" ordered reads(%[[X]]) writes(%[[X]])
// CHECK-SAME: [{written = 0 : i64}]
// CHECK: launch @{{.*}} reads(%[[X]]) writes(%[[Y]])
// CHECK-NEXT: call "mylib::bump" ordered reads(%[[Y]]) writes(%[[Y]])
// CHECK-SAME: [{offset = 1 : i64, sizes = [4], strides = [2], written = 0 : i64}]
// CHECK-NOT: anabranch.copy
module attributes {anabranch.name = "in_place"} {
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {anabranch.writes = 0 : i64}) {
  %0 = anabranch.aten "mylib::bump"(%x) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.dispatch ins(%0 : tensor<8xf32>) {
  ^bb0(%a: tensor<8xf32>):
    %e = tensor.empty() : tensor<8xf32>
    %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
        ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = arith.negf %l : f32
      linalg.yield %n : f32
    } -> tensor<8xf32>
    anabranch.yield %r : tensor<8xf32>
  } {kind = "loops"} -> tensor<8xf32>
  %2 = anabranch.aten "mylib::bump"(%1) ordered
      {x = {written = 0 : i64, sizes = [4 : i64], strides = [2 : i64], offset = 1 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %0 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// One copy where the old value is needed: of an argument that the program does
// not update, and of a value that a later operator reads.
// CHECK-LABEL: anabranch.program "copied"
// CHECK-DAG: %[[X:[0-9]+]] = anabranch.buffer "input" of 0
// CHECK-DAG: %[[A:[0-9]+]] = anabranch.buffer "output" of 0
// CHECK-DAG: %[[B:[0-9]+]] = anabranch.buffer "output" of 1
// CHECK: anabranch.copy %[[X]] to %[[A]]
// CHECK-NEXT: call "mylib::bump" ordered reads(%[[A]]) writes(%[[A]])
// CHECK-NEXT: anabranch.copy %[[A]] to %[[B]]
// CHECK-NEXT: call "mylib::bump" ordered reads(%[[B]]) writes(%[[B]])
// CHECK-NOT: anabranch.copy
module attributes {anabranch.name = "copied"} {
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = anabranch.aten "mylib::bump"(%x) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "mylib::bump"(%0) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// A memory that holds nothing is neither filled nor copied. Two memories of one
// value are two copies.
// CHECK-LABEL: anabranch.program "nothing"
// CHECK-DAG: %[[X:[0-9]+]] = anabranch.buffer "input" of 0
// CHECK-DAG: %[[A:[0-9]+]] = anabranch.buffer "output" of 0
// CHECK: call "mylib::fill" ordered writes(%[[A]])
// CHECK-NEXT: anabranch.copy %[[X]] to %[[B:[0-9]+]]
// CHECK-NEXT: anabranch.copy %[[X]] to %[[C:[0-9]+]]
// CHECK-NEXT: call "mylib::both" ordered reads(%[[B]], %[[C]]) writes(%[[B]], %[[C]])
// CHECK-NEXT: anabranch.copy %[[C]] to %[[X]]
module attributes {anabranch.name = "nothing"} {
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {anabranch.writes = 0 : i64}) {
  %0 = anabranch.aten "mylib::fill"() ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: -1>} : () -> tensor<8xf32>
  %1:2 = anabranch.aten "mylib::both"(%x) ordered {x = {written = 0 : i64}, y = {written = 1 : i64}}
      {anabranch.written = array<i64: 0, 0>} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0, %1#1 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// Two inputs exchange what operators wrote: one value waits in the arena.
// CHECK-LABEL: anabranch.program "exchange"
// CHECK-DAG: %[[X:[0-9]+]] = anabranch.buffer "input" of 0
// CHECK-DAG: %[[Y:[0-9]+]] = anabranch.buffer "input" of 1
// CHECK: call "mylib::bump" ordered reads(%[[X]]) writes(%[[X]])
// CHECK: call "mylib::bump" ordered reads(%[[Y]]) writes(%[[Y]])
// CHECK-NEXT: anabranch.copy %[[Y]] to %[[A:[0-9]+]]
// CHECK-NEXT: anabranch.copy %[[X]] to %[[B:[0-9]+]]
// CHECK-NEXT: anabranch.copy %[[A]] to %[[X]]
// CHECK-NEXT: anabranch.copy %[[B]] to %[[Y]]
module attributes {anabranch.name = "exchange"} {
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (
    tensor<8xf32> {anabranch.writes = 0 : i64}, tensor<8xf32> {anabranch.writes = 1 : i64}) {
  %0 = anabranch.aten "mylib::bump"(%x) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "mylib::bump"(%y) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// A copy with strides has room for as many elements as its dynamic size says.
// CHECK-LABEL: anabranch.program "strided"
// CHECK: anabranch.buffer "arena" {{.*}} strides [3] bytes #anabranch.slot<[[#BYTES:]]>
// CHECK: func.func @anabranch_sizes
// CHECK: %[[GAPS:.*]] = arith.muli %{{.*}}, %c3
// CHECK: %[[ELEMENTS:.*]] = arith.addi %c1, %[[GAPS]]
// CHECK: %[[PRODUCT:.*]] = arith.muli %[[ELEMENTS]], %c4
// CHECK-NEXT: %[[WORD:.*]] = arith.index_cast %[[PRODUCT]]
// CHECK-NEXT: %[[SLOT:.*]] = llvm.getelementptr %arg0[[[#BYTES]]]
// CHECK-NEXT: llvm.store %[[WORD]], %[[SLOT]]
module attributes {anabranch.name = "strided"} {
func.func @main(%x: tensor<?xf32> {anabranch.strides = array<i64: 3>}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %0 = anabranch.aten "mylib::bump"(%x) dims(%n) ordered {x = {written = 0 : i64}}
      {anabranch.written = array<i64: 0>, anabranch.written_strides = [array<i64: 3>]}
      : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
}
