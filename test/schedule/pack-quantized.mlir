// Frozen weights of few bits stay packed in the layout of ir/QuantizedWeight.h.
// RUN: anabranch-opt %s --until=fuse --cpu=avx2 | FileCheck %s
// RUN: anabranch-opt %s --until=fuse --cpu=neoverse-v1 | FileCheck %s --check-prefix=PAIRS

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#wt = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (i)>
#id3 = affine_map<(i, g, j) -> (i, g, j)>
#group = affine_map<(i, g, j) -> (i, g)>

// Low nibbles, then high ones. 8 stands for zero; 32 depths share a scale.
// CHECK-LABEL: func.func @nibbles
// CHECK: anabranch.yield {{.*}} : tensor<2x8x64x4xi8>
// CHECK: {initialize
// CHECK: anabranch.yield {{.*}} : tensor<2x2x64xf32>
// CHECK: {initialize
// CHECK: anabranch.quantized_weight = array<i64: 4, 32, 8, 0, 0, 1, 0>
// CHECK: kind = "contraction"
// Matrix instructions read pairs of columns.
// PAIRS-LABEL: func.func @nibbles
// PAIRS: anabranch.quantized_weight = array<i64: 4, 32, 8, 0, 0, 1, 1>
func.func @nibbles(%x: tensor<2x64xf32>, %q: tensor<70x32xi8> {anabranch.constant = "q"}, %s: tensor<70x2xf32> {anabranch.constant = "s"}) -> tensor<2x70xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<70x32xi8>
  %low = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<70x32xi8>) outs(%e : tensor<70x32xi8>) {
  ^bb0(%a: i8, %o: i8):
    %c = arith.constant 15 : i8
    %r = arith.andi %a, %c : i8
    linalg.yield %r : i8
  } -> tensor<70x32xi8>
  %high = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<70x32xi8>) outs(%e : tensor<70x32xi8>) {
  ^bb0(%a: i8, %o: i8):
    %c = arith.constant 4 : i8
    %r = arith.shrui %a, %c : i8
    linalg.yield %r : i8
  } -> tensor<70x32xi8>
  %both = tensor.empty() : tensor<70x64xi8>
  %one = tensor.insert_slice %low into %both[0, 0] [70, 32] [1, 1] : tensor<70x32xi8> into tensor<70x64xi8>
  %two = tensor.insert_slice %high into %one[0, 32] [70, 32] [1, 1] : tensor<70x32xi8> into tensor<70x64xi8>
  %split = tensor.expand_shape %two [[0], [1, 2]] output_shape [70, 2, 32] : tensor<70x64xi8> into tensor<70x2x32xi8>
  %e3 = tensor.empty() : tensor<70x2x32xf32>
  %f = linalg.generic {indexing_maps = [#id3, #group, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%split, %s : tensor<70x2x32xi8>, tensor<70x2xf32>) outs(%e3 : tensor<70x2x32xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %c = arith.constant 8.0 : f32
    %r = arith.uitofp %a : i8 to f32
    %d = arith.subf %r, %c : f32
    %t = arith.mulf %d, %b : f32
    linalg.yield %t : f32
  } -> tensor<70x2x32xf32>
  %wide = tensor.collapse_shape %f [[0], [1, 2]] : tensor<70x2x32xf32> into tensor<70x64xf32>
  %eo = tensor.empty() : tensor<2x70xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x70xf32>) -> tensor<2x70xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %wide : tensor<2x64xf32>, tensor<70x64xf32>) outs(%z : tensor<2x70xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x70xf32>
  return %p : tensor<2x70xf32>
}

// A transposed weight of int8: packing adds 128 to the integers and to the zero.
// CHECK-LABEL: func.func @bytes
// CHECK: anabranch.yield {{.*}} : tensor<1x4x64x4xi8>
// CHECK: {initialize
// CHECK: anabranch.quantized_weight = array<i64: 8, 10, 128, 0, 0, 0, 0>
func.func @bytes(%x: tensor<2x10xf32>, %q: tensor<10x20xi8> {anabranch.constant = "q"}) -> tensor<2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10x20xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<10x20xi8>) outs(%e : tensor<10x20xf32>) {
  ^bb0(%a: i8, %o: f32):
    %r = arith.sitofp %a : i8 to f32
    linalg.yield %r : f32
  } -> tensor<10x20xf32>
  %eo = tensor.empty() : tensor<2x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x20xf32>) -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#x, #wt, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x10xf32>, tensor<10x20xf32>) outs(%z : tensor<2x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  return %p : tensor<2x20xf32>
}

// Scales and offsets of 16 bits stay so, and the integers stay as they are.
// CHECK-LABEL: func.func @halves
// CHECK: anabranch.yield {{.*}} : tensor<1x4x64x4xi8>
// CHECK: {initialize
// CHECK: anabranch.yield {{.*}} : tensor<1x1x64xf16>
// CHECK: {initialize
// CHECK: anabranch.yield {{.*}} : tensor<1x1x64xf16>
// CHECK: {initialize
// CHECK: anabranch.quantized_weight = array<i64: 4, 32, 0, 0, 0, 1, 0>
func.func @halves(%x: tensor<2x32xf32>, %q: tensor<20x32xi8> {anabranch.constant = "q"}, %s: tensor<20xf16> {anabranch.constant = "s"}, %t: tensor<20xf16> {anabranch.constant = "t"}) -> tensor<2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %en = tensor.empty() : tensor<20x32xi8>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<20x32xi8>) outs(%en : tensor<20x32xi8>) {
  ^bb0(%a: i8, %o: i8):
    %c = arith.constant 15 : i8
    %r = arith.andi %a, %c : i8
    linalg.yield %r : i8
  } -> tensor<20x32xi8>
  %e = tensor.empty() : tensor<20x32xf32>
  %f = linalg.generic {indexing_maps = [#id, #column, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%n, %s, %t : tensor<20x32xi8>, tensor<20xf16>, tensor<20xf16>) outs(%e : tensor<20x32xf32>) {
  ^bb0(%a: i8, %b: f16, %d: f16, %o: f32):
    %i = arith.uitofp %a : i8 to f32
    %u = arith.extf %b : f16 to f32
    %v = arith.extf %d : f16 to f32
    %m = arith.mulf %i, %u : f32
    %r = arith.addf %m, %v : f32
    linalg.yield %r : f32
  } -> tensor<20x32xf32>
  %eo = tensor.empty() : tensor<2x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x20xf32>) -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x32xf32>, tensor<20x32xf32>) outs(%z : tensor<2x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  return %p : tensor<2x20xf32>
}

// No packing: the formula squares the integer.
// CHECK-LABEL: func.func @squares
// CHECK-NOT: anabranch.quantized_weight
func.func @squares(%x: tensor<2x10xf32>, %q: tensor<20x10xi8> {anabranch.constant = "q"}) -> tensor<2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x10xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<20x10xi8>) outs(%e : tensor<20x10xf32>) {
  ^bb0(%a: i8, %o: f32):
    %r = arith.sitofp %a : i8 to f32
    %t = arith.mulf %r, %r : f32
    linalg.yield %t : f32
  } -> tensor<20x10xf32>
  %eo = tensor.empty() : tensor<2x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x20xf32>) -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x10xf32>, tensor<20x10xf32>) outs(%z : tensor<2x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  return %p : tensor<2x20xf32>
}

// No packing: the scales are arguments, which a caller may change.
// CHECK-LABEL: func.func @live
// CHECK-NOT: anabranch.quantized_weight
func.func @live(%x: tensor<2x10xf32>, %q: tensor<20x10xi8> {anabranch.constant = "q"}, %s: tensor<20xf32>) -> tensor<2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x10xf32>
  %f = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<20x10xi8>, tensor<20xf32>) outs(%e : tensor<20x10xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %r = arith.sitofp %a : i8 to f32
    %t = arith.mulf %r, %b : f32
    linalg.yield %t : f32
  } -> tensor<20x10xf32>
  %eo = tensor.empty() : tensor<2x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x20xf32>) -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x10xf32>, tensor<20x10xf32>) outs(%z : tensor<2x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  return %p : tensor<2x20xf32>
}

// A list names the group of each depth, in any order. `initialize` finds the
// order that has groups side by side, and the product reads %x in it.
#list = affine_map<(k, n) -> (k)>
#kn = affine_map<(k, n) -> (k, n)>
// CHECK-LABEL: func.func @by_activation
// CHECK: anabranch.yield {{.*}} : tensor<64xi32>
// CHECK: {initialize
// CHECK: anabranch.yield {{.*}} : tensor<2x8x64x4xi8>
// CHECK: {initialize
// CHECK: anabranch.yield {{.*}} : tensor<2x2x64xf32>
// CHECK: {initialize
// CHECK: {kind = "loops"} -> tensor<2x64xf32>
// CHECK: anabranch.quantized_weight = array<i64: 4, 32, 8, 0, 0, 1, 0>
// CHECK: kind = "contraction"
// CHECK-NOT: anabranch.dispatch
// CHECK: return
func.func @by_activation(%x: tensor<2x64xf32>, %q: tensor<64x70xi8> {anabranch.constant = "q", anabranch.range = array<i64: 0, 15>}, %s: tensor<2x70xf32> {anabranch.constant = "s"}, %g: tensor<64xi32> {anabranch.constant = "g", anabranch.groups = 32 : i64}) -> tensor<2x70xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x70xf32>
  %f = linalg.generic {indexing_maps = [#kn, #list, #kn], iterator_types = ["parallel", "parallel"]} ins(%q, %g : tensor<64x70xi8>, tensor<64xi32>) outs(%e : tensor<64x70xf32>) {
  ^bb0(%a: i8, %b: i32, %o: f32):
    %c = arith.constant 8.0 : f32
    %n = linalg.index 1 : index
    %at = arith.index_cast %b : i32 to index
    %t = tensor.extract %s[%at, %n] : tensor<2x70xf32>
    %r = arith.sitofp %a : i8 to f32
    %d = arith.subf %r, %c : f32
    %m = arith.mulf %d, %t : f32
    linalg.yield %m : f32
  } -> tensor<64x70xf32>
  %eo = tensor.empty() : tensor<2x70xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x70xf32>) -> tensor<2x70xf32>
  %p = linalg.generic {indexing_maps = [#x, #wt, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %f : tensor<2x64xf32>, tensor<64x70xf32>) outs(%z : tensor<2x70xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x70xf32>
  return %p : tensor<2x70xf32>
}

// Codes without scales, and activations that come from bf16, are multiplied as
// bf16.
// CHECK-LABEL: func.func @codes
// CHECK: anabranch.quantized_weight = array<i64: 8, 32, 0, 0, 1, 0, 0>
// CHECK: %[[ELEMENT:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: linalg.yield %[[ELEMENT]] : bf16
// CHECK: ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: bf16, %{{.*}}: f32):
// CHECK-DAG: arith.extf %[[A]] : bf16 to f32
// CHECK-DAG: arith.extf %[[B]] : bf16 to f32
func.func @codes(%x: tensor<2x32xbf16>, %q: tensor<20x32xf8E4M3FN> {anabranch.constant = "q"}) -> tensor<2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %ex = tensor.empty() : tensor<2x32xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x32xbf16>) outs(%ex : tensor<2x32xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %r = arith.extf %a : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<2x32xf32>
  %ew = tensor.empty() : tensor<20x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<20x32xf8E4M3FN>) outs(%ew : tensor<20x32xf32>) {
  ^bb0(%a: f8E4M3FN, %o: f32):
    %r = arith.extf %a : f8E4M3FN to f32
    linalg.yield %r : f32
  } -> tensor<20x32xf32>
  %eo = tensor.empty() : tensor<2x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%eo : tensor<2x20xf32>) -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%wide, %w : tensor<2x32xf32>, tensor<20x32xf32>) outs(%z : tensor<2x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  return %p : tensor<2x20xf32>
}
