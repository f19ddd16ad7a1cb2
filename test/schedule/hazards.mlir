// RUN: not anabranch-opt %s --pass-pipeline="builtin.module(anabranch-insert-events)" 2>&1 | FileCheck %s
// RUN: anabranch-opt %s --pass-pipeline="builtin.module(anabranch-insert-events{repair-hazards=true})" | FileCheck %s --check-prefix=REPAIRED

// One stream overwrites an input while another stream may still read it.
// CHECK: error: stream 'x' overwrites a tensor in place while stream 'main' may still read it
// CHECK: anabranch.wait
// REPAIRED: anabranch.launch @reader
// REPAIRED-NEXT: anabranch.record 0
// REPAIRED: anabranch.wait 0
// REPAIRED-NEXT: anabranch.launch @writer
anabranch.program "main" slots 0 {
  anabranch.input "in" "f32" [4] mutated
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @reader reads(%in) writes(%a) sizes []
    anabranch.launch @writer reads(%in) writes(%in) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 0>}
  }
}
