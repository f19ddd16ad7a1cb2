// What load computes of frozen values is judged by what it stores, not by the values in between.
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(func.func(anabranch-form-dispatches))" | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#id3 = affine_map<(i, j, k) -> (i, j, k)>
#word = affine_map<(i, j, k) -> (i, j)>

// The integers of the words take 16 times the bytes of the words; their bytes, which are read, twice.
// CHECK-LABEL: func.func @through_integers
// CHECK: anabranch.dispatch ins(%arg1 : tensor<512x64xi32>)
// CHECK: anabranch.yield {{.*}} : tensor<512x64x8xi8>
// CHECK-NEXT: {initialize
// CHECK: anabranch.dispatch
// CHECK-NOT: initialize
// CHECK: return
func.func @through_integers(%x: tensor<512x64x8xi8>, %q: tensor<512x64xi32> {anabranch.constant = "q"}) -> tensor<512x64x8xi8> {
  %e = tensor.empty() : tensor<512x64x8xi64>
  %integers = linalg.generic {indexing_maps = [#word, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<512x64xi32>) outs(%e : tensor<512x64x8xi64>) {
  ^bb0(%a: i32, %o: i64):
    %four = arith.constant 4 : i64
    %k = linalg.index 2 : index
    %n = arith.index_cast %k : index to i64
    %shift = arith.muli %n, %four : i64
    %wide = arith.extui %a : i32 to i64
    %r = arith.shrui %wide, %shift : i64
    linalg.yield %r : i64
  } -> tensor<512x64x8xi64>
  %eb = tensor.empty() : tensor<512x64x8xi8>
  %bytes = linalg.generic {indexing_maps = [#id3], iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%eb : tensor<512x64x8xi8>) {
  ^bb0(%o: i8):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %a = tensor.extract %integers[%i, %j, %k] : tensor<512x64x8xi64>
    %r = arith.trunci %a : i64 to i8
    linalg.yield %r : i8
  } -> tensor<512x64x8xi8>
  %sum = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %bytes : tensor<512x64x8xi8>, tensor<512x64x8xi8>) outs(%eb : tensor<512x64x8xi8>) {
  ^bb0(%a: i8, %b: i8, %o: i8):
    %r = arith.addi %a, %b : i8
    linalg.yield %r : i8
  } -> tensor<512x64x8xi8>
  return %sum : tensor<512x64x8xi8>
}

// Where the large value itself is what the call reads, the call computes it, together with what reads it.
// CHECK-LABEL: func.func @into_the_call
// CHECK-NOT: initialize
// CHECK: anabranch.dispatch ins(%arg1, %arg0 :
// CHECK-NOT: initialize
// CHECK: return
func.func @into_the_call(%x: tensor<512x64x8xi64>, %q: tensor<512x64xi32> {anabranch.constant = "q"}) -> tensor<512x64x8xi64> {
  %e = tensor.empty() : tensor<512x64x8xi64>
  %integers = linalg.generic {indexing_maps = [#word, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<512x64xi32>) outs(%e : tensor<512x64x8xi64>) {
  ^bb0(%a: i32, %o: i64):
    %wide = arith.extui %a : i32 to i64
    linalg.yield %wide : i64
  } -> tensor<512x64x8xi64>
  %sum = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %integers : tensor<512x64x8xi64>, tensor<512x64x8xi64>) outs(%e : tensor<512x64x8xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %r = arith.addi %a, %b : i64
    linalg.yield %r : i64
  } -> tensor<512x64x8xi64>
  return %sum : tensor<512x64x8xi64>
}
