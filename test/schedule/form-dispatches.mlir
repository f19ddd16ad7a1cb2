// Operators that share a kernel, and operators that do not.
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(func.func(anabranch-form-dispatches,anabranch-verify-dispatches))" --split-input-file | FileCheck %s

// A softmax is one kernel over rows.
// CHECK-LABEL: func.func @softmax
// CHECK: anabranch.dispatch ins(%arg0 : tensor<8x16xf32>)
// CHECK-COUNT-4: linalg.generic
// CHECK: kind = "loops"
// CHECK-NOT: anabranch.dispatch
// CHECK: return
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @softmax(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<8xf32>
  %all = tensor.empty() : tensor<8x16xf32>
  %lows = linalg.fill ins(%low : f32) outs(%row : tensor<8xf32>) -> tensor<8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%row : tensor<8xf32>) -> tensor<8xf32>
  %max = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x16xf32>) outs(%lows : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  %exp = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<8x16xf32>, tensor<8xf32>) outs(%all : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<8x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<8x16xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  %div = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<8x16xf32>, tensor<8xf32>) outs(%all : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<8x16xf32>
  return %div : tensor<8x16xf32>
}

// -----

// A sum over rows and a sum over columns cannot share rows.
// CHECK-LABEL: func.func @two_row_spaces
// CHECK-COUNT-2: anabranch.dispatch
// CHECK-NOT: anabranch.dispatch
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>
func.func @two_row_spaces(%x: tensor<8x16xf32>) -> tensor<16xf32> {
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<8xf32>
  %col = tensor.empty() : tensor<16xf32>
  %all = tensor.empty() : tensor<8x16xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%row : tensor<8xf32>) -> tensor<8xf32>
  %zc = linalg.fill ins(%zero : f32) outs(%col : tensor<16xf32>) -> tensor<16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x16xf32>) outs(%zr : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  %sub = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<8x16xf32>, tensor<8xf32>) outs(%all : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<8x16xf32>
  %cols = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%sub : tensor<8x16xf32>) outs(%zc : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<16xf32>
  return %cols : tensor<16xf32>
}

// -----

// A matrix product takes in its bias and activation, and reads the transposed
// weight as a view. The next product starts a kernel of its own.
// CHECK-LABEL: func.func @mlp
// CHECK: %[[H:.*]] = anabranch.dispatch ins(%arg0, %arg1, %arg2 :
// CHECK: math.tanh
// CHECK: kind = "contraction"
// CHECK: anabranch.dispatch ins(%[[H]], %arg3 :
// CHECK: kind = "contraction"
// CHECK-NOT: anabranch.dispatch
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>
#bias = affine_map<(i, j) -> (j)>
func.func @mlp(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>, %bias: tensor<32xf32>, %w2: tensor<32x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %te = tensor.empty() : tensor<64x32xf32>
  %wt = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<32x64xf32>) outs(%te : tensor<64x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<64x32xf32>
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %mm = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %wt : tensor<?x64xf32>, tensor<64x32xf32>) outs(%z : tensor<?x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x32xf32>
  %m = tensor.dim %mm, %c0 : tensor<?x32xf32>
  %e2 = tensor.empty(%m) : tensor<?x32xf32>
  %act = linalg.generic {indexing_maps = [#id, #bias, #id], iterator_types = ["parallel", "parallel"]}
      ins(%mm, %bias : tensor<?x32xf32>, tensor<32xf32>) outs(%e2 : tensor<?x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    %q = math.tanh %p : f32
    linalg.yield %q : f32
  } -> tensor<?x32xf32>
  %e3 = tensor.empty(%n) : tensor<?x4xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %mm2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%act, %w2 : tensor<?x32xf32>, tensor<32x4xf32>) outs(%z3 : tensor<?x4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x4xf32>
  return %mm2 : tensor<?x4xf32>
}

// -----

// A reduction that does not read one of its operands is no contraction.
// CHECK-LABEL: func.func @unused_operand
// CHECK: anabranch.dispatch
// CHECK: kind = "loops"
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @unused_operand(%a: tensor<4x8xf32>, %b: tensor<5x8xf32>) -> tensor<4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32>
  %sum = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x8xf32>, tensor<5x8xf32>) outs(%zeros : tensor<4x5xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<4x5xf32>
  return %sum : tensor<4x5xf32>
}

// -----

// A product reads the weights of the chosen experts in place: neither the gather
// nor the arithmetic of the choice has a kernel of its own.
// CHECK-LABEL: func.func @chosen_weights
// CHECK: anabranch.dispatch
// CHECK-NOT: kind = "loops"
// CHECK: tensor.extract
// CHECK: kind = "contraction"
// CHECK-NOT: anabranch.dispatch
func.func @chosen_weights(%x: tensor<2x1x64xf32>, %w: tensor<8x32x64xf32>, %i: tensor<2xi64>) -> tensor<2x1x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : i64
  %p = tensor.empty() : tensor<2xi64>
  %e = tensor.empty() : tensor<2x32x64xf32>
  %f = tensor.empty() : tensor<2x1x32xf32>
  %next = linalg.generic {indexing_maps = [affine_map<(s) -> (s)>, affine_map<(s) -> (s)>], iterator_types = ["parallel"]}
      ins(%i : tensor<2xi64>) outs(%p : tensor<2xi64>) {
  ^bb0(%a: i64, %o: i64):
    %r = arith.addi %a, %one : i64
    linalg.yield %r : i64
  } -> tensor<2xi64>
  %g = linalg.generic {indexing_maps = [affine_map<(s, n, k) -> (s)>, affine_map<(s, n, k) -> (s, n, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%next : tensor<2xi64>) outs(%e : tensor<2x32x64xf32>) {
  ^bb0(%a: i64, %o: f32):
    %n = linalg.index 1 : index
    %k = linalg.index 2 : index
    %at = arith.index_cast %a : i64 to index
    %v = tensor.extract %w[%at, %n, %k] : tensor<8x32x64xf32>
    linalg.yield %v : f32
  } -> tensor<2x32x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<2x1x32xf32>) -> tensor<2x1x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(s, m, n, k) -> (s, m, k)>, affine_map<(s, m, n, k) -> (s, n, k)>, affine_map<(s, m, n, k) -> (s, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %g : tensor<2x1x64xf32>, tensor<2x32x64xf32>) outs(%init : tensor<2x1x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %t = arith.mulf %a, %b : f32
    %r = arith.addf %c, %t : f32
    linalg.yield %r : f32
  } -> tensor<2x1x32xf32>
  return %y : tensor<2x1x32xf32>
}

// -----

// An index for each column gives columns that are no neighbours: a kernel copies them.
// CHECK-LABEL: func.func @picked_columns
// CHECK: tensor.extract
// CHECK: kind = "loops"
// CHECK: kind = "contraction"
func.func @picked_columns(%x: tensor<4x64xf32>, %w: tensor<64x80xf32>, %i: tensor<32xi64>) -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %f = tensor.empty() : tensor<4x32xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(k, n) -> (n)>, affine_map<(k, n) -> (k, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<32xi64>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: i64, %o: f32):
    %k = linalg.index 0 : index
    %at = arith.index_cast %a : i64 to index
    %v = tensor.extract %w[%k, %at] : tensor<64x80xf32>
    linalg.yield %v : f32
  } -> tensor<64x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<4x32xf32>) -> tensor<4x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %g : tensor<4x64xf32>, tensor<64x32xf32>) outs(%init : tensor<4x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %t = arith.mulf %a, %b : f32
    %r = arith.addf %c, %t : f32
    linalg.yield %r : f32
  } -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// A pool reads the image in place: its kernel has the padding, and nobody stores a padded image.
// CHECK-LABEL: func.func @padded_taps
// CHECK-COUNT-1: anabranch.dispatch ins(%{{.*}} : tensor<6x16xf32>)
// CHECK: tensor.insert_slice
// CHECK: kind = "loops"
// CHECK-NOT: anabranch.dispatch
func.func @padded_taps(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %p = tensor.insert_slice %x into %f[1, 0] [6, 16] [1, 1] : tensor<6x16xf32> into tensor<8x16xf32>
  %a = tensor.extract_slice %p[0, 0] [6, 16] [1, 1] : tensor<8x16xf32> to tensor<6x16xf32>
  %b = tensor.extract_slice %p[1, 0] [6, 16] [1, 1] : tensor<8x16xf32> to tensor<6x16xf32>
  %c = tensor.extract_slice %p[2, 0] [6, 16] [1, 1] : tensor<8x16xf32> to tensor<6x16xf32>
  %r = tensor.empty() : tensor<6x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b, %c : tensor<6x16xf32>, tensor<6x16xf32>, tensor<6x16xf32>) outs(%r : tensor<6x16xf32>) {
  ^bb0(%u: f32, %v: f32, %w: f32, %o: f32):
    %m = arith.maximumf %u, %v : f32
    %n = arith.maximumf %m, %w : f32
    linalg.yield %n : f32
  } -> tensor<6x16xf32>
  return %y : tensor<6x16xf32>
}

// -----

// What makes the image is computed once, not at every tap of the window.
// CHECK-LABEL: func.func @taps_of_a_computed_image
// CHECK: anabranch.dispatch
// CHECK: math.exp
// CHECK: anabranch.dispatch
// CHECK: tensor.insert_slice
// CHECK-NOT: anabranch.dispatch
func.func @taps_of_a_computed_image(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
  %zero = arith.constant 0.0 : f32
  %d = tensor.empty() : tensor<6x16xf32>
  %image = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x16xf32>) outs(%d : tensor<6x16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %n = math.exp %u : f32
    linalg.yield %n : f32
  } -> tensor<6x16xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %p = tensor.insert_slice %image into %f[1, 0] [6, 16] [1, 1] : tensor<6x16xf32> into tensor<8x16xf32>
  %a = tensor.extract_slice %p[0, 0] [6, 16] [1, 1] : tensor<8x16xf32> to tensor<6x16xf32>
  %c = tensor.extract_slice %p[2, 0] [6, 16] [1, 1] : tensor<8x16xf32> to tensor<6x16xf32>
  %r = tensor.empty() : tensor<6x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %c : tensor<6x16xf32>, tensor<6x16xf32>) outs(%r : tensor<6x16xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %m = arith.addf %u, %v : f32
    linalg.yield %m : f32
  } -> tensor<6x16xf32>
  return %y : tensor<6x16xf32>
}

// -----

// Keys and values that a table of blocks chooses are read in place, also as bytes that a cheap operator converts.
// CHECK-LABEL: func.func @paged_attention
// CHECK-COUNT-1: anabranch.dispatch
// CHECK-COUNT-2: tensor.extract
// CHECK: anabranch.attention
// CHECK: kind = "attention"
// CHECK-NOT: anabranch.dispatch
#table = affine_map<(b, n, t, e) -> (b, n)>
#all = affine_map<(b, n, t, e) -> (b, n, t, e)>
func.func @paged_attention(%q: tensor<2x1x64xf32>, %pool: tensor<9x16x64xf32>, %bytes: tensor<9x16x64xi8>, %t: tensor<2x3xi64>) -> tensor<2x1x64xf32> {
  %e = tensor.empty() : tensor<2x3x16x64xf32>
  %b = tensor.empty() : tensor<2x3x16x64xi8>
  %k = linalg.generic {indexing_maps = [#table, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%t : tensor<2x3xi64>) outs(%e : tensor<2x3x16x64xf32>) {
  ^bb0(%n: i64, %o: f32):
    %i = arith.index_cast %n : i64 to index
    %r = linalg.index 2 : index
    %c = linalg.index 3 : index
    %x = tensor.extract %pool[%i, %r, %c] : tensor<9x16x64xf32>
    linalg.yield %x : f32
  } -> tensor<2x3x16x64xf32>
  %v = linalg.generic {indexing_maps = [#table, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%t : tensor<2x3xi64>) outs(%b : tensor<2x3x16x64xi8>) {
  ^bb0(%n: i64, %o: i8):
    %i = arith.index_cast %n : i64 to index
    %r = linalg.index 2 : index
    %c = linalg.index 3 : index
    %x = tensor.extract %bytes[%i, %r, %c] : tensor<9x16x64xi8>
    linalg.yield %x : i8
  } -> tensor<2x3x16x64xi8>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%v : tensor<2x3x16x64xi8>) outs(%e : tensor<2x3x16x64xf32>) {
  ^bb0(%n: i8, %o: f32):
    %x = arith.sitofp %n : i8 to f32
    linalg.yield %x : f32
  } -> tensor<2x3x16x64xf32>
  %keys = tensor.collapse_shape %k [[0], [1, 2], [3]] : tensor<2x3x16x64xf32> into tensor<2x48x64xf32>
  %values = tensor.collapse_shape %w [[0], [1, 2], [3]] : tensor<2x3x16x64xf32> into tensor<2x48x64xf32>
  %y = anabranch.attention %q, %keys, %values {scale = 1.0 : f64} : (tensor<2x1x64xf32>, tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> tensor<2x1x64xf32>
  return %y : tensor<2x1x64xf32>
}

// -----

// A row of keys whose elements the table chooses one by one is copied.
// CHECK-LABEL: func.func @attention_of_gathered_elements
// CHECK-COUNT-2: anabranch.dispatch
// CHECK-NOT: anabranch.dispatch
func.func @attention_of_gathered_elements(%q: tensor<2x1x64xf32>, %pool: tensor<9x99xf32>, %values: tensor<2x48x64xf32>, %t: tensor<64xi64>) -> tensor<2x1x64xf32> {
  %e = tensor.empty() : tensor<2x48x64xf32>
  %k = linalg.generic {indexing_maps = [affine_map<(b, t, e) -> (e)>, affine_map<(b, t, e) -> (b, t, e)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%t : tensor<64xi64>) outs(%e : tensor<2x48x64xf32>) {
  ^bb0(%n: i64, %o: f32):
    %i = arith.index_cast %n : i64 to index
    %r = linalg.index 0 : index
    %x = tensor.extract %pool[%r, %i] : tensor<9x99xf32>
    linalg.yield %x : f32
  } -> tensor<2x48x64xf32>
  %y = anabranch.attention %q, %k, %values {scale = 1.0 : f64} : (tensor<2x1x64xf32>, tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> tensor<2x1x64xf32>
  return %y : tensor<2x1x64xf32>
}

// -----

// Two products are added. The reader joins the product whose elements are wider,
// although the other one comes later.
// CHECK-LABEL: func.func @wider_product
// CHECK: %[[BYTES:.*]] = anabranch.dispatch ins(%arg0, %arg2 : {{.*}}) {
// CHECK: arith.trunci
// CHECK: kind = "contraction"
// CHECK-SAME: tensor<8x8xi8>
// CHECK: anabranch.dispatch ins({{.*}}%[[BYTES]]
// CHECK: arith.addf
// CHECK: kind = "contraction"
// CHECK-SAME: tensor<8x8xf32>
// CHECK-NOT: anabranch.dispatch
// CHECK: return
#l = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @wider_product(%x: tensor<8x16xf32>, %v: tensor<16x8xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %first = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<8x16xf32>, tensor<16x8xf32>) outs(%start : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %second = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x16xf32>, tensor<16x8xf32>) outs(%start : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %none = tensor.empty() : tensor<8x8xi8>
  %bytes = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%second : tensor<8x8xf32>) outs(%none : tensor<8x8xi8>) {
  ^bb0(%a: f32, %b: i8):
    %r = math.roundeven %a : f32
    %i = arith.fptosi %r : f32 to i32
    %t = arith.trunci %i : i32 to i8
    linalg.yield %t : i8
  } -> tensor<8x8xi8>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%first, %bytes : tensor<8x8xf32>, tensor<8x8xi8>) outs(%empty : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: i8, %c: f32):
    %f = arith.sitofp %b : i8 to f32
    %s = arith.addf %a, %f : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %sum : tensor<8x8xf32>
}
