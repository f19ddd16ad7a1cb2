// The program packs steady right operands in initialize, into panels of the kernel's width.
// RUN: anabranch-opt %s --until=fuse --cpu=avx2 | FileCheck %s
// RUN: anabranch-opt %s --until=fuse --cpu=avx512bf16 | FileCheck %s --check-prefix=PAIRS

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#wt = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#bx = affine_map<(b, m, n, k) -> (b, m, k)>
#bw = affine_map<(b, m, n, k) -> (b, k, n)>
#bout = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

// Twenty columns in a panel of 24, with zeros after them. The product reads the
// panel through views that equal the weight.
// CHECK-LABEL: func.func @linear
// CHECK: %[[PANELS:.*]] = anabranch.dispatch ins(%arg1 : tensor<20x10xf32>)
// CHECK: tensor.empty() : tensor<1x10x24xf32>
// CHECK: arith.cmpi slt
// CHECK: tensor.extract %{{.*}} : tensor<20x10xf32>
// CHECK: arith.select
// CHECK: {initialize
// CHECK: anabranch.dispatch ins(%arg0, %[[PANELS]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x10x24xf32>)
// CHECK: tensor.collapse_shape {{.*}} : tensor<1x24x10xf32> into tensor<24x10xf32>
// CHECK: tensor.extract_slice {{.*}} : tensor<24x10xf32> to tensor<20x10xf32>
// CHECK: kind = "contraction"
func.func @linear(%x: tensor<4x10xf32>, %w: tensor<20x10xf32> {anabranch.constant = "w"}) -> tensor<4x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x20xf32>) -> tensor<4x20xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x10xf32>, tensor<20x10xf32>) outs(%init : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x20xf32>
  return %0 : tensor<4x20xf32>
}

// A watched weight is packed as a frozen one is, by the calls that find it changed.
// CHECK-LABEL: func.func @watched
// CHECK: %[[PANELS:.*]] = anabranch.dispatch ins(%arg1 : tensor<20x10xf32>)
// CHECK: {initialize
// CHECK: anabranch.dispatch ins(%arg0, %[[PANELS]]
func.func @watched(%x: tensor<4x10xf32>, %w: tensor<20x10xf32> {anabranch.watched}) -> tensor<4x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x20xf32>) -> tensor<4x20xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x10xf32>, tensor<20x10xf32>) outs(%init : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x20xf32>
  return %0 : tensor<4x20xf32>
}

// A live weight is not packed.
// CHECK-LABEL: func.func @live
// CHECK-NOT: initialize
// CHECK: anabranch.dispatch ins(%arg0, %arg1 : tensor<4x10xf32>, tensor<20x10xf32>)
// CHECK: return
func.func @live(%x: tensor<4x10xf32>, %w: tensor<20x10xf32>) -> tensor<4x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x20xf32>) -> tensor<4x20xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x10xf32>, tensor<20x10xf32>) outs(%init : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x20xf32>
  return %0 : tensor<4x20xf32>
}

// Batches are the outer dimensions. Two products with one weight share its panels.
// CHECK-LABEL: func.func @batched_twice
// CHECK-COUNT-1: {initialize
// CHECK-NOT: initialize
// CHECK: return
func.func @batched_twice(%x: tensor<3x4x10xf32>, %w: tensor<3x10x16xf32> {anabranch.constant = "w"})
    -> (tensor<3x4x16xf32>, tensor<3x4x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
  %0 = linalg.generic {indexing_maps = [#bx, #bw, #bout], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<3x4x10xf32>, tensor<3x10x16xf32>) outs(%init : tensor<3x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x4x16xf32>
  %y = tensor.extract_slice %0[0, 0, 0] [3, 4, 10] [1, 1, 1] : tensor<3x4x16xf32> to tensor<3x4x10xf32>
  %1 = linalg.generic {indexing_maps = [#bx, #bw, #bout], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%y, %w : tensor<3x4x10xf32>, tensor<3x10x16xf32>) outs(%init : tensor<3x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x4x16xf32>
  return %0, %1 : tensor<3x4x16xf32>, tensor<3x4x16xf32>
}

// A weight that repeats one row is not packed: panels would be larger.
// CHECK-LABEL: func.func @broadcast
// CHECK-NOT: initialize
// CHECK: return
func.func @broadcast(%x: tensor<4x32xf32>, %w: tensor<32xf32> {anabranch.constant = "w"}) -> tensor<4x64xf32> {
  %zero = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<64x32xf32>
  %wide = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<32xf32>) outs(%we : tensor<64x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64x32xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %wide : tensor<4x32xf32>, tensor<64x32xf32>) outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}

// Two depths of bf16 are adjacent, whether kernels multiply pairs or widen them.
// CHECK-LABEL: func.func @bf16
// CHECK: tensor.empty() : tensor<{{[0-9]+}}x5x{{[0-9]+}}x2xbf16>
// PAIRS-LABEL: func.func @bf16
// PAIRS: tensor.empty() : tensor<1x5x48x2xbf16>
// PAIRS: tensor.collapse_shape {{.*}} : tensor<1x48x5x2xbf16> into tensor<48x10xbf16>
// PAIRS: tensor.extract_slice {{.*}} : tensor<48x10xbf16> to tensor<20x9xbf16>
func.func @bf16(%x: tensor<4x9xbf16>, %w: tensor<9x20xbf16> {anabranch.constant = "w"}) -> tensor<4x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x20xf32>) -> tensor<4x20xf32>
  %0 = linalg.generic {indexing_maps = [#x, #wt, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x9xbf16>, tensor<9x20xbf16>) outs(%init : tensor<4x20xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %u = arith.extf %a : bf16 to f32
    %v = arith.extf %b : bf16 to f32
    %p = arith.mulf %u, %v : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x20xf32>
  return %0 : tensor<4x20xf32>
}

// Four bytes of a column are adjacent, whichever instruction multiplies them.
// CHECK-LABEL: func.func @bytes
// CHECK: tensor.empty() : tensor<2x3x16x4xi8>
// CHECK: {initialize
// CHECK: kind = "contraction"
func.func @bytes(%x: tensor<4x10xi8>, %w: tensor<10x20xi8> {anabranch.constant = "w"}) -> tensor<4x20xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x20xi32>
  %init = linalg.fill ins(%zero : i32) outs(%e : tensor<4x20xi32>) -> tensor<4x20xi32>
  %0 = linalg.generic {indexing_maps = [#x, #wt, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x10xi8>, tensor<10x20xi8>) outs(%init : tensor<4x20xi32>) {
  ^bb0(%a: i8, %b: i8, %s: i32):
    %c = arith.extsi %a : i8 to i32
    %d = arith.extsi %b : i8 to i32
    %p = arith.muli %c, %d : i32
    %t = arith.addi %s, %p : i32
    linalg.yield %t : i32
  } -> tensor<4x20xi32>
  return %0 : tensor<4x20xi32>
}
