// A super kernel that fuses streams has member streams instead of them.
// RUN: anabranch-opt %s --anabranch-join-streams --anabranch-insert-events | FileCheck %s --check-prefix=STREAMS
// RUN: anabranch-opt %s --anabranch-join-streams --anabranch-insert-events --anabranch-form-supers | FileCheck %s

// The stream "x" keeps its order: its first command comes before the whole super
// kernel, its last command after it.
// STREAMS: anabranch.stream "main" {
// STREAMS-NEXT: anabranch.wait 0
// STREAMS-NEXT: anabranch.launch @a
// STREAMS-NEXT: anabranch.launch @b {{.*}} {anabranch.member_stream = "x"{{.*}}}
// STREAMS: anabranch.launch @c
// STREAMS: anabranch.stream "x" {
// STREAMS-NEXT: anabranch.launch @first
// STREAMS-NEXT: anabranch.record 0
// STREAMS-NEXT: anabranch.wait 1
// STREAMS-NEXT: anabranch.launch @last

// CHECK: anabranch.wait 0
// CHECK-NEXT: anabranch.super "s_0" streams 2 {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.record 1
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
    anabranch.launch @first reads(%in) writes(%d) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 0>}
    anabranch.launch @a reads(%in) writes(%a) sizes [] loc(#s)
    anabranch.launch @b reads(%in) writes(%b) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 1>} loc(#s)
    anabranch.launch @c reads(%a, %b) writes(%c) sizes [] loc(#s)
    anabranch.launch @last reads(%in) writes(%e) sizes [] {anabranch.scope = #anabranch.scope<"x", 0, 0>}
  }
}
