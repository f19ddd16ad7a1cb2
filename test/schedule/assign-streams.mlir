// Two machines. On the first, two workers are twice as fast as one. On the
// second, the workers are hyperthreads, and a second stream gains nothing.
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(anabranch-assign-streams{workers=2 gflops=1 gflops-all=2 gbs=100 gbs-all=200 wake=2})" | FileCheck %s
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(anabranch-assign-streams{workers=2 gflops=1 gflops-all=1 gbs=100 gbs-all=100 wake=2})" | FileCheck %s --check-prefix=SAME
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(anabranch-assign-streams{workers=1 gflops=1 gflops-all=1 gbs=100 gbs-all=100 wake=2})" | FileCheck %s --check-prefix=SAME

// Each kernel takes four microseconds, which is too short to share.
// CHECK: anabranch.launch @k reads(%0) writes(%1) sizes []{{$}}
// CHECK: anabranch.launch @k reads(%0) writes(%2) sizes [] {anabranch.scope = #anabranch.scope<"auto1", 0, 0>}
// CHECK: anabranch.launch @k reads(%1) writes(%3)
// CHECK: anabranch.launch @k reads(%2) writes(%4)
// SAME-NOT: anabranch.scope
#i = affine_map<(i) -> (i)>
func.func @k(%x: tensor<4096xf32>) -> tensor<4096xf32> attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<4096xf32>
  %0 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%x : tensor<4096xf32>) outs(%e : tensor<4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.mulf %a, %a : f32
    linalg.yield %n : f32
  } -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
anabranch.program "main" slots 0 {
  anabranch.input "in" "f32" [4096]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4096] bytes 16384 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4096] bytes 16384 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4096] bytes 16384 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4096] bytes 16384 : i64
  %d = anabranch.buffer "arena" memory 4 "f32" [4096] bytes 16384 : i64
  anabranch.stream "main" {
    anabranch.launch @k reads(%in) writes(%a) sizes []
    anabranch.launch @k reads(%in) writes(%b) sizes []
    anabranch.launch @k reads(%a) writes(%c) sizes []
    anabranch.launch @k reads(%b) writes(%d) sizes []
  }
}
