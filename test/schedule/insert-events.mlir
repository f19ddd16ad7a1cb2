// RUN: anabranch-opt %s --split-input-file --pass-pipeline="builtin.module(anabranch-insert-events)" | FileCheck %s

// A gets one event, although two commands read it: C needs B, which needs A. A
// fence at the end of a stream gets no event.
// CHECK: anabranch.stream "main"
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.record 0
// CHECK-NEXT: anabranch.wait 1
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.stream "x"
// CHECK-NEXT: anabranch.wait 0
// CHECK-NEXT: anabranch.launch @b {{.*}} {cores = 1 : i64}
// CHECK-NEXT: anabranch.record 1
// CHECK-NEXT: anabranch.launch @d {{.*}} {cores = 1 : i64}
// CHECK-NEXT: }
// CHECK-NEXT: } {events = 2 : i64}
anabranch.program "main" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  %d = anabranch.buffer "arena" memory 4 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes []
    anabranch.launch @b reads(%a) writes(%b) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 1>}
    anabranch.launch @c reads(%a, %b) writes(%c) sizes []
    anabranch.launch @d reads(%a) writes(%d) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 1>, anabranch.points = array<i64: 0>}
    anabranch.fence {anabranch.after = array<i64: 0>}
  }
}

// -----

// The second draw of random numbers waits for the first, although they share no
// memory. The third call may run at any time.
// CHECK-LABEL: anabranch.program "random"
// CHECK: anabranch.stream "main"
// CHECK-NEXT: anabranch.call "rand" ordered
// CHECK-NEXT: anabranch.record 0
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.stream "x"
// CHECK-NEXT: anabranch.wait 0
// CHECK-NEXT: anabranch.call "rand" ordered
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.stream "y"
// CHECK-NEXT: anabranch.call "sort"
// CHECK-NEXT: }
anabranch.program "random" slots 0 {
  %a = anabranch.buffer "external" memory 0 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "external" memory 1 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "external" memory 2 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.call "rand" ordered writes(%a) arguments [] [] wanted [0]
    anabranch.call "rand" ordered writes(%b) arguments [] [] wanted [0] {anabranch.scope = #anabranch.scope<"x", 0, 0>}
    anabranch.call "sort" writes(%c) arguments [] [] wanted [0] {anabranch.scope = #anabranch.scope<"y", 0, 0>}
  }
}
