// Inside of a super kernel that fuses streams, fences order launches that share no
// bytes.
// RUN: anabranch-opt %s --anabranch-keep-fences | FileCheck %s --check-prefix=FENCES
// RUN: anabranch-opt %s --anabranch-keep-fences --anabranch-join-streams --anabranch-insert-events --anabranch-form-supers | FileCheck %s

// The stream "x" waits for @a alone. @d names the point of a fence on another
// stream, and comes after @b too.
// FENCES: launch @a {{.*}} {anabranch.fences_after = array<i64: 0, 1>
// FENCES: launch @b {{.*}} {anabranch.fences_after = array<i64: 1>
// FENCES: launch @c {{.*}} {anabranch.fences_before = array<i64: 0>
// FENCES: launch @d {{.*}} {anabranch.after = array<i64: 1>, anabranch.fences_before = array<i64: 1>
// FENCES: launch @free
// FENCES-NOT: anabranch.fences_before

// CHECK: anabranch.super "s_0" streams 2 orders [#anabranch.order<[0], [2]>, #anabranch.order<[0, 1], [3]>] {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: anabranch.launch @d
// CHECK-NEXT: anabranch.launch @free
// CHECK-NOT: anabranch.fences_after
// CHECK-NOT: anabranch.fences_before
#s = loc(fused<#anabranch.super<"s", 1, "">>["m.py":3:0])
anabranch.program "main" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  %d = anabranch.buffer "arena" memory 4 "f32" [4] bytes 16 : i64
  %e = anabranch.buffer "arena" memory 5 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [] {anabranch.points = array<i64: 0>} loc(#s)
    anabranch.launch @b reads(%in) writes(%b) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 0>} loc(#s)
    anabranch.fence {anabranch.scope = #anabranch.scope<"x", 0, 0>, anabranch.after = array<i64: 0>, anabranch.points = array<i64: 1>} loc(#s)
    anabranch.launch @c reads(%in) writes(%c) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 0>} loc(#s)
    anabranch.launch @d reads(%in) writes(%d) sizes [] {anabranch.after = array<i64: 1>} loc(#s)
    anabranch.launch @free reads(%in) writes(%e) sizes [] loc(#s)
  }
}
